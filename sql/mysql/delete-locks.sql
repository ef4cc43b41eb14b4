-- Deletes what a transaction that was committed too early has left behind. Values: maximum number.
DELETE FROM idempotency_records_locks
WHERE locked_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000
ORDER BY locked_until
LIMIT ?
