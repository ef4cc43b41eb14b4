-- Deletes a batch of expired parts, as sql/delete-expired.sql does with records.
--
-- $1  maximum number of parts
-- $2  advisory lock of this table
-- $3  where to begin, in seconds; 0 = with the oldest
-- $4  maximum bytes, but at least one part
-- $5  nonce
--
-- After the nonce: whether this process got the advisory lock, how many parts were deleted, whether none is left, and where
-- the next batch begins, if any was deleted.
WITH deletion_lock AS MATERIALIZED (
  SELECT pg_try_advisory_xact_lock($2::bigint) AS mine
),
expired AS (
  SELECT name, part, expires_at, pg_column_size(bytes) AS size
  FROM idempotency_blobs
  WHERE (expires_at, name) >= (to_timestamp($3::double precision), '')
    AND expires_at <= statement_timestamp() AND (SELECT mine FROM deletion_lock)
  ORDER BY expires_at
  LIMIT $1::integer
  FOR UPDATE SKIP LOCKED
),
summed AS (
  SELECT name, part, expires_at, sum(size) OVER (ORDER BY expires_at, name, part) - size AS size_before
  FROM expired
),
batch AS MATERIALIZED (
  SELECT name, part, expires_at FROM summed WHERE size_before < $4::bigint
),
deleted AS (
  DELETE FROM idempotency_blobs AS blob
  USING batch
  WHERE blob.name = batch.name AND blob.part = batch.part
  RETURNING 1
)
SELECT concat_ws(
  ' ', $5::text, mine,
  (SELECT count(*) FROM deleted),
  (SELECT count(*) FROM expired) < $1::integer AND (SELECT count(*) FROM expired) = (SELECT count(*) FROM batch),
  (SELECT extract(epoch FROM max(expires_at)) FROM batch)
) AS reply
FROM deletion_lock
