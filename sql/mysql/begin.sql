-- Inserts the record of a first attempt, unless there is one, whatever its state. ON DUPLICATE KEY locks an existing row at once in
-- the mode of a write, so that no two statements wait for each other; that it adds 0 leaves the row as it is.
--
-- Values: key, version, token, fingerprint, length of the lease, the shorter of lease and max execution, max execution, retention,
-- origin, the shorter again if there is an origin, else NULL, note, last instant for a first attempt twice (0 = no limit).
--
-- The insert ID of the reply is the fence, the clock in microseconds; 0 if nothing was inserted. The number of affected rows is not
-- used: drivers disagree on it.
INSERT INTO idempotency_records (
  record_key, version, state, token, fence, fingerprint, attempt, takeovers,
  lease_ms, lease_until, deadline, expires_at, origin, recoverable_from, note
)
SELECT
  CAST(? AS BINARY), ?, 'in_progress', ?, LAST_INSERT_ID(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))), ?, 1, 0,
  ?, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000 + ?,
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000 + ?,
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000 + ?,
  ?, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000 + ?, ?
FROM DUAL
WHERE ? = 0 OR TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000 <= ?
ON DUPLICATE KEY UPDATE version = idempotency_records.version + LAST_INSERT_ID(0)
