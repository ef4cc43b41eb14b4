-- Lists records in progress with an origin whose lease has expired, the oldest first. Values: nonce, minimum time since then, end of
-- the lease of the last record of the page before three times, key of that record, maximum number.
SELECT ? AS nonce, record.*
FROM (SELECT 1 AS one) AS one
LEFT JOIN (
  SELECT record_key, token, fingerprint, origin, recoverable_from
  FROM idempotency_records
  WHERE recoverable_from <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000 - ?
    AND expires_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000
    AND recoverable_from >= ? AND (recoverable_from > ? OR (recoverable_from = ? AND record_key > ?))
  ORDER BY recoverable_from, record_key
  LIMIT ?
) AS record ON 1 = 1
ORDER BY recoverable_from, record_key
