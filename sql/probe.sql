-- Checks whether the row of a record in progress is locked: by a running transactional attempt, whose lease is the lock.
--
-- $1  record key
-- $2  fence of the record
-- $3  nonce
--
-- After the nonce: a word if it is not locked. Nothing: it is locked, or the record has changed.
WITH free AS (
  SELECT concat_ws(' ', $3::text, 'free') AS reply
  FROM idempotency_records
  WHERE record_key = $1::bytea AND state = 'in_progress' AND fence = $2::bigint
  FOR SHARE SKIP LOCKED
)
SELECT coalesce((SELECT reply FROM free), $3::text) AS reply
