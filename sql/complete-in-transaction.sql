-- Stores the outcome in the attempt's own record in progress, within the transaction that lock.sql has locked it in and marked
-- with the attempt's name. A transaction that the application has ended since, or begun again, lacks that mark.
--
-- An insert with a conflict, for the reason given in lock.sql.
--
-- $1 to $8 as in complete.sql
-- $9  id of the transaction of lock.sql
-- $10 nonce
--
-- After the nonce: "stored"; "committed" if that one was committed before, and nothing is written; or nothing, and then the
-- transaction must be rolled back: the application has rolled back that one, or the record is gone, and a tombstone was inserted in
-- its place.
WITH stored AS (
  INSERT INTO idempotency_records AS record (
    record_key, state, token, fence, fingerprint, attempt, takeovers, expires_at
  )
  SELECT $1::bytea, 'released', $2::text, $3::bigint, '-', 1, 0, statement_timestamp()
  WHERE current_setting('nestjs_idempotency.attempt', true) = $2::text
  ON CONFLICT (record_key) DO UPDATE
  SET
    state = $4::text,
    expires_at = date_trunc('milliseconds', statement_timestamp()) + $5::bigint * interval '1 millisecond',
    origin = NULL,
    note = coalesce(left($8::text || coalesce(record.note, ''), 240), record.note),
    outcome_header = $6::bytea,
    outcome_body = $7::bytea
  WHERE record.expires_at > date_trunc('milliseconds', statement_timestamp())
    AND record.state = 'in_progress' AND record.token = $2::text AND record.fence = $3::bigint
  RETURNING record.state
    , record.fence, record.attempt, record.fingerprint, record.note -- journal
)
, journal AS (INSERT INTO idempotency_journal SELECT $1::bytea, '', 'completed', statement_timestamp(), state, fence, attempt, fingerprint, note, ':service', ':version' FROM stored WHERE state = $4::text) -- journal
SELECT concat_ws(' ', $10::text,
  -- Of its own transaction it says "in progress".
  CASE txid_status($9::bigint) WHEN 'committed' THEN 'committed' END,
  (SELECT 'stored' FROM stored WHERE state = $4::text)) AS reply
