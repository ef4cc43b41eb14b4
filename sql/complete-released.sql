-- Stores a success over the tombstone of another attempt: that attempt released the key, and this effect happened. Never a
-- failure: a late one could hide the effect of another attempt.
--
-- $1  record key
-- $2  owner token
-- $3  fence, or 0
-- $4  retention of the outcome, ms
-- $5  fingerprint
-- $6  outcome header
-- $7  outcome body
-- $8  nonce
--
-- After the nonce: a word if the outcome was stored. Nothing: the record has changed.
WITH stored AS (
  UPDATE idempotency_records
  SET
    state = 'completed',
    token = $2::text,
    fence = greatest(fence, $3::bigint),
    fingerprint = $5::text,
    expires_at = date_trunc('milliseconds', statement_timestamp()) + $4::bigint * interval '1 millisecond',
    outcome_header = $6::bytea,
    outcome_body = $7::bytea
  WHERE record_key = $1::bytea AND expires_at > date_trunc('milliseconds', statement_timestamp())
    AND state = 'released' AND token <> $2::text
  RETURNING concat_ws(' ', $8::text, 'stored') AS reply
    , state, fence, attempt, fingerprint, note -- journal
)
, journal AS (INSERT INTO idempotency_journal SELECT $1::bytea, '', 'completed', statement_timestamp(), state, fence, attempt, fingerprint, note, ':service', ':version' FROM stored) -- journal
SELECT coalesce((SELECT reply FROM stored), $8::text) AS reply
