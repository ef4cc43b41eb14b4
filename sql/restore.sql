-- Restores the outcome of a success whose record is gone. Never a failure: it could hide the effect of an attempt whose record
-- is gone.
--
-- $1  record key
-- $2  owner token
-- $3  fence, or 0 for an attempt that never had one
-- $4  retention of the outcome, ms
-- $5  fingerprint
-- $6  outcome header
-- $7  outcome body
-- $8  nonce
--
-- After the nonce: a word if the outcome was stored. Nothing: a record exists.
WITH restored AS (
  INSERT INTO idempotency_records AS record (
    record_key, state, token, fence, fingerprint, attempt, takeovers, expires_at, outcome_header, outcome_body
  )
  VALUES (
    $1::bytea, 'completed', $2::text,
    CASE $3::bigint WHEN 0 THEN (extract(epoch FROM statement_timestamp()) * 1000000)::bigint ELSE $3::bigint END,
    $5::text, 1, 0, date_trunc('milliseconds', statement_timestamp()) + $4::bigint * interval '1 millisecond', $6::bytea, $7::bytea
  )
  ON CONFLICT (record_key) DO UPDATE
  SET
    state = excluded.state,
    token = excluded.token,
    fence = greatest(record.fence, excluded.fence),
    fingerprint = excluded.fingerprint,
    attempt = excluded.attempt,
    takeovers = excluded.takeovers,
    lease_until = NULL,
    lease_ms = NULL,
    deadline = NULL,
    expires_at = excluded.expires_at,
    origin = NULL,
    note = NULL,
    outcome_header = excluded.outcome_header,
    outcome_body = excluded.outcome_body
  WHERE record.expires_at <= date_trunc('milliseconds', statement_timestamp())
  RETURNING concat_ws(' ', $8::text, 'restored') AS reply
    , record.state, record.fence, record.attempt, record.fingerprint, record.note -- journal
)
, journal AS (INSERT INTO idempotency_journal SELECT $1::bytea, '', 'restored', statement_timestamp(), state, fence, attempt, fingerprint, note, ':service', ':version' FROM restored ON CONFLICT DO NOTHING) -- journal
SELECT coalesce((SELECT reply FROM restored), $8::text) AS reply
