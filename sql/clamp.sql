-- Shortens a lease that lies further ahead than its own length, because the clock stepped back: a dead owner's lease would
-- outlast its length by the size of the step. Skips a locked row: a begin never waits, a transactional attempt that holds the
-- lock is alive, and the next begin tries again.
--
-- $1  record key
-- $2  fence of the record
-- $3  nonce
--
-- After the nonce: nothing.
WITH too_far AS (
  SELECT record_key
  FROM idempotency_records
  WHERE record_key = $1::bytea AND state = 'in_progress' AND fence = $2::bigint
    AND lease_until > date_trunc('milliseconds', statement_timestamp()) + lease_ms * interval '1 millisecond'
  FOR NO KEY UPDATE SKIP LOCKED
),
clamped AS (
  UPDATE idempotency_records AS record
  SET lease_until = date_trunc('milliseconds', statement_timestamp()) + lease_ms * interval '1 millisecond'
  FROM too_far
  WHERE record.record_key = too_far.record_key
)
SELECT $3::text AS reply
