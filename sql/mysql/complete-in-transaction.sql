-- Stores the outcome in the attempt's own record in progress, even with an expired lease, in a transaction of the application.
--
-- Values: version, state, retention, header, body, text in front of the note or NULL, key, token, fence twice (0 = unknown).
UPDATE idempotency_records
SET
  version = ?, state = ?, expires_at = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000 + ?,
  outcome_header = ?, outcome_body = ?, note = COALESCE(LEFT(CONCAT(?, COALESCE(note, '')), 240), note), lease_until = NULL, lease_ms = NULL, deadline = NULL, origin = NULL, recoverable_from = NULL
WHERE record_key = ? AND token = ? AND (? = 0 OR fence = ?) AND state = 'in_progress'
  AND expires_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000
