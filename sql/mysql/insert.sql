-- Inserts a record, unless there is one. Values: the columns in this order. The insert ID of the reply is the version, or 0.
INSERT INTO idempotency_records (
  version, state, token, fence, fingerprint, attempt, takeovers, lease_until, lease_ms, deadline, expires_at,
  origin, recoverable_from, note, outcome_header, outcome_body, record_key
)
VALUES (LAST_INSERT_ID(?), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE version = idempotency_records.version + LAST_INSERT_ID(0)
