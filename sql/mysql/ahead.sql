-- Lists records in progress with an origin whose lease ends further ahead than its own length: the clock stepped back. It looks at
-- those furthest ahead: there a step back leaves them, among all healthy leases. Values: nonce, maximum number.
SELECT ? AS nonce, record.record_key
FROM (SELECT 1 AS one) AS one
LEFT JOIN (
  SELECT record_key, recoverable_from, lease_ms
  FROM idempotency_records
  WHERE recoverable_from > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000
  ORDER BY recoverable_from DESC
  LIMIT ?
) AS record ON record.recoverable_from > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000 + record.lease_ms
