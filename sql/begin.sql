-- Acquires the right to run the operation: inserts the record, or reads an existing one.
-- One statement for a first request and for a replay; it neither writes nor locks an existing record.
--
-- statement_timestamp() is this server's clock when it received the statement: constant within the statement, here and in
-- all of these files, and cheaper than a clock that is read once and passed around.
--
-- $1  record key
-- $2  owner token
-- $3  fingerprint
-- $4  lease, ms
-- $5  max execution, ms
-- $6  retention of the record in progress, ms
-- $7  notAfter: when the begin is late, in seconds of this server's clock; Infinity = never
-- $8  origin, or null
-- $9  note, or null
-- $10 nonce
--
-- Reply, in all of these files: one row of one column, words of which the first is the nonce, the statement's last parameter
-- and new for each send. A reply with another nonce is discarded. One column, because every execution prepares and describes
-- each column again.
--
-- After the nonce: the fence, which is the clock in microseconds, if the record was inserted; else the clock in seconds and the
-- record, in the format of record-row.ts, without the outcome of another content. Nothing: it is late, or a concurrent begin
-- inserted the record after this statement's snapshot.
--
-- An existing record is read first, so that a replay reads it once. And an insert would wait for a transaction that has
-- completed the record and is about to commit: a begin never waits.
WITH found AS MATERIALIZED (
  SELECT concat_ws(
    ' ', $10::text, extract(epoch FROM statement_timestamp()), state, token, fence, fingerprint, attempt, takeovers,
    extract(epoch FROM expires_at), '#' || note, extract(epoch FROM lease_until), lease_ms, extract(epoch FROM deadline), origin,
    encode(CASE WHEN fingerprint = $3::text THEN outcome_header END, 'base64'),
    encode(CASE WHEN fingerprint = $3::text THEN outcome_body END, 'base64')
  ) AS reply
  FROM idempotency_records
  WHERE record_key = $1::bytea
),
inserted AS (
  INSERT INTO idempotency_records (
    record_key, state, token, fence, fingerprint, attempt, takeovers,
    lease_until, lease_ms, deadline, expires_at, origin, note
  )
  SELECT
    $1::bytea, 'in_progress', $2::text, (extract(epoch FROM statement_timestamp()) * 1000000)::bigint, $3::text, 1, 0,
    date_trunc('milliseconds', statement_timestamp()) + least($4::bigint, $5::bigint) * interval '1 millisecond', $4::bigint,
    date_trunc('milliseconds', statement_timestamp()) + $5::bigint * interval '1 millisecond',
    date_trunc('milliseconds', statement_timestamp()) + $6::bigint * interval '1 millisecond', $8::text, $9::text
  WHERE NOT EXISTS (SELECT 1 FROM found) AND statement_timestamp() < to_timestamp($7::double precision)
  ON CONFLICT (record_key) DO NOTHING
  RETURNING concat_ws(' ', $10::text, fence) AS reply
    , state, fence, attempt, fingerprint, note -- journal
)
, journal AS (INSERT INTO idempotency_journal SELECT $1::bytea, '', 'acquired', statement_timestamp(), state, fence, attempt, fingerprint, note, ':service', ':version' FROM inserted) -- journal
SELECT coalesce((SELECT reply FROM found), (SELECT reply FROM inserted), $10::text) AS reply
