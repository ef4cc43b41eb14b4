-- Whether the record in progress is the attempt's own. Values: nonce, key, token, fence.
SELECT ? AS nonce, (
  SELECT count(*) FROM idempotency_records
  WHERE record_key = ? AND token = ? AND fence = ? AND state = 'in_progress'
    AND expires_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000
) AS found
