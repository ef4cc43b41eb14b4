-- Lets the operation run again at once: in progress -> released. Never deletes an outcome.
--
-- $1  record key
-- $2  owner token
-- $3  fence, or 0 to compare the token alone
-- $4  how long the tombstone is kept, ms
-- $5  text in front of the record's note; null to leave that
-- $6  nonce
--
-- After the nonce: a word if the record was released. Nothing: the record has changed.
WITH released AS (
  UPDATE idempotency_records
  SET
    state = 'released',
    lease_until = NULL,
    lease_ms = NULL,
    deadline = NULL,
    expires_at = date_trunc('milliseconds', statement_timestamp()) + $4::bigint * interval '1 millisecond',
    origin = NULL,
    note = coalesce(left($5::text || coalesce(note, ''), 240), note)
  WHERE record_key = $1::bytea AND expires_at > date_trunc('milliseconds', statement_timestamp())
    AND state = 'in_progress' AND token = $2::text AND ($3::bigint = 0 OR fence = $3::bigint)
  RETURNING concat_ws(' ', $6::text, 'released') AS reply
    , state, fence, attempt, fingerprint, note -- journal
)
, journal AS (INSERT INTO idempotency_journal SELECT $1::bytea, '', 'released', statement_timestamp(), state, fence, attempt, fingerprint, note, ':service', ':version' FROM released) -- journal
SELECT coalesce((SELECT reply FROM released), $6::text) AS reply
