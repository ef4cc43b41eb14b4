-- Asks whether somebody holds the row of a record in progress: a transactional attempt at work, whose lease is the lock.
--
-- $1  record key
-- $2  fence of the record
--
-- One row if nobody does; none if somebody does, or the record stands otherwise by now.
SELECT 1
FROM idempotency_records
WHERE record_key = $1::bytea AND state = 'in_progress' AND fence = $2::bigint
FOR SHARE SKIP LOCKED
