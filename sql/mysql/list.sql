-- Reads the next records by their keys, without their outcomes. Values: nonce, key of the last record of the page before, lowest
-- key, highest key, maximum number.
SELECT ? AS nonce, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS now_us, record.*
FROM (SELECT 1 AS one) AS one
LEFT JOIN (
  SELECT
    record_key, version, state, token, fence, fingerprint, attempt, takeovers, lease_until, lease_ms, deadline, expires_at,
    origin, note
  FROM idempotency_records
  WHERE record_key > ? AND record_key BETWEEN ? AND ?
  ORDER BY record_key
  LIMIT ?
) AS record ON 1 = 1
ORDER BY record_key
