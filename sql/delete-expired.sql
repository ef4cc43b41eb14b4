-- Deletes a batch of expired records, if no other process does so at this moment. Rows that somebody holds are left for
-- the next time.
--
-- $1  how many at the most
-- $2  advisory lock of this table
--
-- One row: whether it was this one's turn, how many were deleted.
WITH turn AS MATERIALIZED (
  SELECT pg_try_advisory_xact_lock($2::bigint) AS mine
),
expired AS (
  SELECT record_key
  FROM idempotency_records
  WHERE expires_at <= statement_timestamp() AND (SELECT mine FROM turn)
  ORDER BY expires_at
  LIMIT $1::integer
  FOR UPDATE SKIP LOCKED
),
deleted AS (
  DELETE FROM idempotency_records
  WHERE record_key = ANY (ARRAY(SELECT record_key FROM expired))
  RETURNING 1
)
SELECT mine, (SELECT count(*) FROM deleted) AS deleted FROM turn
