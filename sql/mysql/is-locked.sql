-- Whether a transaction of the attempt is open: to be read uncommitted. Values: nonce, key, token.
SELECT ? AS nonce, (
  SELECT count(*) FROM idempotency_records_locks
  WHERE record_key = ? AND token = ? AND locked_until > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000
) AS found
