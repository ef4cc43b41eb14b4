-- Deletes a batch of expired records, oldest first, unless another process is doing so. Skips locked rows.
--
-- $1  maximum number of records
-- $2  advisory lock of this table
-- $3  where to begin, in seconds; 0 = with the oldest. Deleted rows stay in the front of the index until they are vacuumed,
--     which any older transaction delays: skipping all of them would take longer with every batch.
-- $4  maximum bytes of outcomes, but at least one record: a large one is deleted piece by piece
-- $5  nonce
--
-- The lower bound is compared as a pair: without statistics, the planner would take the two bounds for a narrow range, and sort
-- the whole table for every batch instead of following the index.
--
-- After the nonce: whether this process got the advisory lock, how many records were deleted, whether none is left, and where
-- the next batch begins, if any was deleted.
WITH deletion_lock AS MATERIALIZED (
  SELECT pg_try_advisory_xact_lock($2::bigint) AS mine
),
expired AS (
  SELECT record_key, expires_at, coalesce(pg_column_size(outcome_body), 0) AS bytes
  FROM idempotency_records
  WHERE (expires_at, record_key) >= (to_timestamp($3::double precision), ''::bytea)
    AND expires_at <= statement_timestamp() AND (SELECT mine FROM deletion_lock)
  ORDER BY expires_at
  LIMIT $1::integer
  FOR UPDATE SKIP LOCKED
),
summed AS (
  SELECT record_key, expires_at, sum(bytes) OVER (ORDER BY expires_at, record_key) - bytes AS bytes_before
  FROM expired
),
batch AS MATERIALIZED (
  SELECT record_key, expires_at FROM summed WHERE bytes_before < $4::bigint
),
deleted AS (
  DELETE FROM idempotency_records AS record
  USING batch
  WHERE record.record_key = batch.record_key
  RETURNING 1
)
SELECT concat_ws(
  ' ', $5::text, mine,
  (SELECT count(*) FROM deleted),
  (SELECT count(*) FROM expired) < $1::integer AND (SELECT count(*) FROM expired) = (SELECT count(*) FROM batch),
  (SELECT extract(epoch FROM max(expires_at)) FROM batch)
) AS reply
FROM deletion_lock
