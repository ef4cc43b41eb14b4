-- Writes a record that still has the version with which it was read. Values: the columns in this order, then that version. The
-- insert ID of the reply is the new version, or 0.
UPDATE idempotency_records
SET
  version = LAST_INSERT_ID(?), state = ?, token = ?, fence = ?, fingerprint = ?, attempt = ?, takeovers = ?, lease_until = ?,
  lease_ms = ?, deadline = ?, expires_at = ?, origin = ?, recoverable_from = ?, note = ?, outcome_header = ?, outcome_body = ?
WHERE record_key = ? AND version = ?
