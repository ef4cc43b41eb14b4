-- Lists records in progress whose lease has been over for a while, the longest first, and that say where they come from. A row
-- that a transaction holds is left out: a transactional attempt is at work on it, however long ago its lease ran out. The
-- locks that this takes end with the statement, and the next one to write waits that long.
--
-- With the first page, leases of such records that lie further ahead than their own length are shortened to it, as in clamp.sql:
-- the clock stepped back, and nobody else may ever ask about a dead owner's key. Only of those that lie furthest ahead, as many
-- as a page holds: that is where a step back leaves them, and all healthy leases lie ahead as well.
--
-- $1  how long the lease has been over at least, ms
-- $2  how many at the most
-- $3  end of the lease of the last record of the page before, ms; 0 for the first page
-- $4  key of that record; empty for the first page
-- $5  nonce
--
-- After the nonce: of each record its key in base64, fingerprint, origin, and the end of the lease in ms.
WITH ahead AS (
  SELECT record_key
  FROM idempotency_records
  -- Arrays, as a join may be planned as one with the whole table.
  WHERE record_key = ANY (ARRAY(
      SELECT record_key
      FROM idempotency_records
      WHERE $3::bigint = 0 AND state = 'in_progress' AND origin IS NOT NULL
        AND lease_until > date_trunc('milliseconds', statement_timestamp())
      ORDER BY lease_until DESC
      LIMIT $2::integer
    ))
    AND state = 'in_progress' AND expires_at > date_trunc('milliseconds', statement_timestamp())
    AND lease_until > date_trunc('milliseconds', statement_timestamp()) + lease_ms * interval '1 millisecond'
  FOR NO KEY UPDATE SKIP LOCKED
),
clamped AS (
  UPDATE idempotency_records
  SET lease_until = date_trunc('milliseconds', statement_timestamp()) + lease_ms * interval '1 millisecond'
  WHERE record_key = ANY (ARRAY(SELECT record_key FROM ahead))
),
found AS (
  SELECT record_key, fingerprint, origin, lease_until
  FROM idempotency_records
  WHERE state = 'in_progress' AND origin IS NOT NULL
    AND expires_at > date_trunc('milliseconds', statement_timestamp())
    AND lease_until <= date_trunc('milliseconds', statement_timestamp()) - $1::bigint * interval '1 millisecond'
    AND (lease_until, record_key) > (to_timestamp(0) + $3::bigint * interval '1 millisecond', $4::bytea)
  ORDER BY lease_until, record_key
  LIMIT $2::integer
  FOR SHARE SKIP LOCKED
)
SELECT concat_ws(
  ' ', $5::text,
  string_agg(
    concat_ws(' ', encode(record_key, 'base64'), fingerprint, origin, (extract(epoch FROM lease_until) * 1000)::bigint),
    ' ' ORDER BY lease_until, record_key
  )
) AS reply
FROM found
