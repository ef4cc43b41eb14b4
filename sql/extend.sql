-- Extends the lease of a running attempt, never beyond its hard deadline.
--
-- $1  record key
-- $2  owner token
-- $3  fence, or 0 to compare the token alone
-- $4  lease, ms
-- $5  retention of the record in progress, ms
-- $6  whether the lease may have expired
-- $7  nonce
--
-- After the nonce: a word if the lease was extended. Nothing: the record is not this attempt's, or is no longer in
-- progress.
WITH extended AS (
  UPDATE idempotency_records
  SET
    lease_until = least(date_trunc('milliseconds', statement_timestamp()) + $4::bigint * interval '1 millisecond', deadline),
    lease_ms = $4::bigint,
    expires_at = date_trunc('milliseconds', statement_timestamp()) + $5::bigint * interval '1 millisecond'
  WHERE record_key = $1::bytea AND expires_at > date_trunc('milliseconds', statement_timestamp())
    AND state = 'in_progress' AND token = $2::text AND ($3::bigint = 0 OR fence = $3::bigint)
    AND deadline > date_trunc('milliseconds', statement_timestamp())
    AND ($6::boolean OR lease_until > date_trunc('milliseconds', statement_timestamp()))
  RETURNING concat_ws(' ', $7::text, 'extended') AS reply
)
SELECT coalesce((SELECT reply FROM extended), $7::text) AS reply
