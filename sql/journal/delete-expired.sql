-- Deletes a batch of entries whose retention is over, as sql/delete-expired.sql does with records. It locks no row, which would
-- require the right to UPDATE.
--
-- $1  maximum number of entries
-- $2  advisory lock of this table
-- $3  where to begin, in seconds; 0 = with the oldest
-- $4  maximum bytes, at 512 for an entry
-- $5  nonce
--
-- After the nonce: whether this process got the advisory lock, how many entries were deleted, whether none is left, and where
-- the next batch begins, if any was deleted.
WITH deletion_lock AS MATERIALIZED (
  SELECT pg_try_advisory_xact_lock($2::bigint) AS mine, least($1::integer, $4::bigint / 512) AS most
),
expired AS MATERIALIZED (
  SELECT record_key, fence, token, kind, at
  FROM idempotency_journal
  WHERE at >= to_timestamp($3::double precision)
    AND at <= statement_timestamp() - ':retention'::interval AND (SELECT mine FROM deletion_lock)
  ORDER BY at
  LIMIT (SELECT most FROM deletion_lock)
),
deleted AS (
  DELETE FROM idempotency_journal AS entry
  USING expired
  WHERE entry.record_key = expired.record_key AND entry.fence = expired.fence AND entry.token = expired.token
    AND entry.kind = expired.kind
  RETURNING 1
)
SELECT concat_ws(
  ' ', $5::text, mine,
  (SELECT count(*) FROM deleted),
  (SELECT count(*) FROM expired) < most,
  (SELECT extract(epoch FROM max(at)) FROM expired)
) AS reply
FROM deletion_lock
