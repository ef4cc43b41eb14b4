-- Changes the record for an operator, if it is still as he saw it; all conditions are evaluated on the locked row. Skips a row
-- that a transaction has locked: a transactional attempt is running, however long ago its lease expired.
--
-- $1  record key
-- $2  token of this change
-- $3  state that the operator saw
-- $4  fence that he saw
-- $5  notBefore, in seconds of this server's clock; -Infinity for no limit
-- $6  whether to change a record in progress though its lease is running
-- $7  state of the record from now on
-- $8  whether the record becomes the operator's: else token and fence stay
-- $9  how many takeovers to add
-- $10 how long the tombstone or the outcome is kept, ms; null to leave it
-- $11 note in place of the record's; null to leave that
-- $12 outcome header; null to leave the outcome, or without one
-- $13 outcome body
-- $14 nonce
--
-- After the nonce: the record's fence from now on. Nothing: the record has changed, or its row is locked.
WITH found AS (
  SELECT record_key
  FROM idempotency_records AS record
  WHERE record_key = $1::bytea AND expires_at > date_trunc('milliseconds', statement_timestamp())
    AND token <> $2::text AND state = $3::text AND fence = $4::bigint
    AND date_trunc('milliseconds', statement_timestamp()) >= to_timestamp($5::double precision)
    AND (
      state <> 'in_progress' OR $6::boolean
      -- A lease further ahead than its own length (the clock stepped back) counts as one of that length.
      OR least(lease_until, date_trunc('milliseconds', statement_timestamp()) + lease_ms * interval '1 millisecond') <= date_trunc('milliseconds', statement_timestamp())
    )
  FOR UPDATE OF record SKIP LOCKED
),
amended AS (
  UPDATE idempotency_records AS record
  SET
    state = $7::text,
    token = CASE WHEN $8::boolean THEN $2::text ELSE token END,
    fence = CASE WHEN $8::boolean THEN fence + 1 ELSE fence END,
    takeovers = takeovers + $9::integer,
    lease_until = NULL,
    lease_ms = NULL,
    deadline = NULL,
    expires_at = coalesce(date_trunc('milliseconds', statement_timestamp()) + $10::bigint * interval '1 millisecond', expires_at),
    origin = NULL,
    note = coalesce($11::text, note),
    outcome_header = CASE WHEN $7::text <> 'released' THEN coalesce($12::bytea, outcome_header) END,
    outcome_body = CASE WHEN $7::text <> 'released' THEN coalesce($13::bytea, outcome_body) END
  FROM found
  WHERE record.record_key = found.record_key
  RETURNING concat_ws(' ', $14::text, record.fence) AS reply
    , record.state, record.fence, record.attempt, record.fingerprint, record.note -- journal
)
, journal AS (INSERT INTO idempotency_journal SELECT $1::bytea, $2::text, 'settled', statement_timestamp(), state, fence, attempt, fingerprint, note, ':service', ':version' FROM amended ON CONFLICT DO NOTHING) -- journal
SELECT coalesce((SELECT reply FROM amended), $14::text) AS reply
