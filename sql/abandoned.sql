-- Lists records in progress with an origin whose lease has expired, the oldest first. Skips a row that a transaction has
-- locked: a transactional attempt is running, however long ago its lease expired. The locks that this takes end with the
-- statement; a concurrent write waits that long.
--
-- The first page also shortens leases of such records that lie further ahead than their own length, as clamp.sql does: the
-- clock stepped back, and no request may ever come for a dead owner's key. It shortens only those furthest ahead, one page of
-- them: a step back leaves them there, among all healthy leases.
--
-- $1  minimum time since the lease expired, ms
-- $2  maximum number of records
-- $3  end of the lease of the last record of the page before, ms; 0 for the first page
-- $4  key of that record; empty for the first page
-- $5  nonce
--
-- After the nonce: for each record its key in base64, fingerprint, origin, and the end of the lease in ms.
WITH ahead AS (
  SELECT record_key
  FROM idempotency_records
  -- Arrays, since the planner may turn a join into one with the whole table.
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
