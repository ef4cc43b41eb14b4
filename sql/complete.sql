-- Stores the outcome, once and for all, in the attempt's own record in progress.
--
-- $1  record key
-- $2  owner token
-- $3  fence, or 0 to compare the token alone
-- $4  completed or failed
-- $5  retention of the outcome, ms
-- $6  outcome header
-- $7  outcome body
-- $8  text in front of the record's note; null to leave that
-- $9  whether the lease may have expired
-- $10 nonce
--
-- After the nonce: a word if the outcome was stored. Nothing: the record is not this attempt's, or is no longer in
-- progress.
WITH stored AS (
  UPDATE idempotency_records
  SET
    state = $4::text,
    expires_at = date_trunc('milliseconds', statement_timestamp()) + $5::bigint * interval '1 millisecond',
    origin = NULL,
    note = coalesce(left($8::text || coalesce(note, ''), 240), note),
    outcome_header = $6::bytea,
    outcome_body = $7::bytea
  WHERE record_key = $1::bytea AND expires_at > date_trunc('milliseconds', statement_timestamp())
    AND state = 'in_progress' AND token = $2::text AND ($3::bigint = 0 OR fence = $3::bigint)
    AND ($9::boolean OR lease_until > date_trunc('milliseconds', statement_timestamp()))
  RETURNING concat_ws(' ', $10::text, 'stored') AS reply
    , state, fence, attempt, fingerprint, note -- journal
)
, journal AS (INSERT INTO idempotency_journal SELECT $1::bytea, '', 'completed', statement_timestamp(), state, fence, attempt, fingerprint, note, ':service', ':version' FROM stored) -- journal
SELECT coalesce((SELECT reply FROM stored), $10::text) AS reply
