-- Reads the keys of expired records, the oldest first, without locks. Values: nonce, where to begin, maximum number.
SELECT ? AS nonce, record.*
FROM (SELECT 1 AS one) AS one
LEFT JOIN (
  SELECT record_key, expires_at
  FROM idempotency_records
  WHERE expires_at >= ? AND expires_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000
  ORDER BY expires_at
  LIMIT ?
) AS record ON 1 = 1
ORDER BY expires_at
