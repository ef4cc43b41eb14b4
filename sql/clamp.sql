-- Shortens a lease that lies further ahead than its own length, because the clock stepped back: a dead owner's lease would
-- outlast its length by the size of the step.
--
-- $1  record key
-- $2  fence of the record
UPDATE idempotency_records
SET lease_until = date_trunc('milliseconds', statement_timestamp()) + lease_ms * interval '1 millisecond'
WHERE record_key = $1::bytea AND state = 'in_progress' AND fence = $2::bigint
  AND lease_until > date_trunc('milliseconds', statement_timestamp()) + lease_ms * interval '1 millisecond'
