-- Stores the outcome, once and for all, in the attempt's own record in progress.
--
-- $1  record key
-- $2  owner token
-- $3  fence, or 0 to compare the token alone
-- $4  completed or failed
-- $5  retention of the outcome, ms
-- $6  outcome header
-- $7  outcome body
-- $8  whether the lease may have expired
-- $9  nonce
--
-- After the nonce: a word if the outcome was stored. Nothing: the record is not this attempt's, or is no longer in
-- progress.
WITH stored AS (
  UPDATE idempotency_records
  SET
    state = $4::text,
    expires_at = date_trunc('milliseconds', statement_timestamp()) + $5::bigint * interval '1 millisecond',
    origin = NULL,
    outcome_header = $6::bytea,
    outcome_body = $7::bytea
  WHERE record_key = $1::bytea AND expires_at > date_trunc('milliseconds', statement_timestamp())
    AND state = 'in_progress' AND token = $2::text AND ($3::bigint = 0 OR fence = $3::bigint)
    AND ($8::boolean OR lease_until > date_trunc('milliseconds', statement_timestamp()))
  RETURNING concat_ws(' ', $9::text, 'stored') AS reply
)
SELECT coalesce((SELECT reply FROM stored), $9::text) AS reply
