// Made from sql/ by "npm run texts": change the files there.

export const STATEMENT_TEXTS = {
  'abandoned': `-- Lists records in progress with an origin whose lease has expired, the oldest first. Skips a row that a transaction has
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
`,
  'begin': `-- Acquires the right to run the operation: inserts the record, or reads an existing one.
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
-- $9  nonce
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
    ' ', $9::text, extract(epoch FROM statement_timestamp()), state, token, fence, fingerprint, attempt, takeovers,
    extract(epoch FROM expires_at), extract(epoch FROM lease_until), lease_ms, extract(epoch FROM deadline), origin,
    encode(CASE WHEN fingerprint = $3::text THEN outcome_header END, 'base64'),
    encode(CASE WHEN fingerprint = $3::text THEN outcome_body END, 'base64')
  ) AS reply
  FROM idempotency_records
  WHERE record_key = $1::bytea
),
inserted AS (
  INSERT INTO idempotency_records (
    record_key, state, token, fence, fingerprint, attempt, takeovers,
    lease_until, lease_ms, deadline, expires_at, origin
  )
  SELECT
    $1::bytea, 'in_progress', $2::text, (extract(epoch FROM statement_timestamp()) * 1000000)::bigint, $3::text, 1, 0,
    date_trunc('milliseconds', statement_timestamp()) + least($4::bigint, $5::bigint) * interval '1 millisecond', $4::bigint,
    date_trunc('milliseconds', statement_timestamp()) + $5::bigint * interval '1 millisecond',
    date_trunc('milliseconds', statement_timestamp()) + $6::bigint * interval '1 millisecond', $8::text
  WHERE NOT EXISTS (SELECT 1 FROM found) AND statement_timestamp() < to_timestamp($7::double precision)
  ON CONFLICT (record_key) DO NOTHING
  RETURNING concat_ws(' ', $9::text, fence) AS reply
)
SELECT coalesce((SELECT reply FROM found), (SELECT reply FROM inserted), $9::text) AS reply
`,
  'clamp': `-- Shortens a lease that lies further ahead than its own length, because the clock stepped back: a dead owner's lease would
-- outlast its length by the size of the step. Skips a locked row: a begin never waits, a transactional attempt that holds the
-- lock is alive, and the next begin tries again.
--
-- $1  record key
-- $2  fence of the record
-- $3  nonce
--
-- After the nonce: nothing.
WITH too_far AS (
  SELECT record_key
  FROM idempotency_records
  WHERE record_key = $1::bytea AND state = 'in_progress' AND fence = $2::bigint
    AND lease_until > date_trunc('milliseconds', statement_timestamp()) + lease_ms * interval '1 millisecond'
  FOR NO KEY UPDATE SKIP LOCKED
),
clamped AS (
  UPDATE idempotency_records AS record
  SET lease_until = date_trunc('milliseconds', statement_timestamp()) + lease_ms * interval '1 millisecond'
  FROM too_far
  WHERE record.record_key = too_far.record_key
)
SELECT $3::text AS reply
`,
  'complete-in-transaction': `-- Stores the outcome in the attempt's own record in progress, within the transaction that lock.sql has locked it in and marked
-- with the attempt's name. A transaction that the application has ended since, or begun again, lacks that mark.
--
-- An insert with a conflict, for the reason given in lock.sql.
--
-- $1 to $7 as in complete.sql
-- $8  nonce
--
-- After the nonce: a word if the outcome was stored. Nothing, and then the transaction must be rolled back: it is another one, or
-- the record is gone, and a tombstone was inserted in its place.
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
    outcome_header = $6::bytea,
    outcome_body = $7::bytea
  WHERE record.expires_at > date_trunc('milliseconds', statement_timestamp())
    AND record.state = 'in_progress' AND record.token = $2::text AND record.fence = $3::bigint
  RETURNING record.state
)
SELECT concat_ws(' ', $8::text, (SELECT 'stored' FROM stored WHERE state = $4::text)) AS reply
`,
  'complete-released': `-- Stores a success over the tombstone of another attempt: that attempt released the key, and this effect happened. Never a
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
)
SELECT coalesce((SELECT reply FROM stored), $8::text) AS reply
`,
  'complete': `-- Stores the outcome, once and for all, in the attempt's own record in progress.
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
`,
  'confirm': `-- Locks the record without changing it. The lock is a write: this statement ends when the standbys of synchronous_commit have
-- it and everything before it, including what a backend stored that was terminated while it waited for them.
--
-- $1  record key
-- $2  nonce
--
-- After the nonce: nothing.
WITH locked AS (
  SELECT $2::text AS reply FROM idempotency_records WHERE record_key = $1::bytea FOR UPDATE
)
SELECT coalesce((SELECT reply FROM locked), $2::text) AS reply
`,
  'delete-expired': `-- Deletes a batch of expired records, oldest first, unless another process is doing so. Skips locked rows.
--
-- $1  maximum number of records
-- $2  advisory lock of this table
-- $3  where to begin, in seconds; 0 = with the oldest. Deleted rows stay in the front of the index until they are vacuumed,
--     which any older transaction delays: skipping all of them would take longer with every batch.
-- $4  maximum bytes of outcomes, but at least one record: a large one is deleted piece by piece
-- $5  nonce
--
-- The lower bound is compared as a pair: without statistics, the planner would take the two bounds for a narrow range, and sort
-- the whole table for every batch instead of following the index.
--
-- After the nonce: whether this process got the advisory lock, how many records were deleted, whether none is left, and where
-- the next batch begins, if any was deleted.
WITH turn AS MATERIALIZED (
  SELECT pg_try_advisory_xact_lock($2::bigint) AS mine
),
expired AS (
  SELECT record_key, expires_at, coalesce(pg_column_size(outcome_body), 0) AS bytes
  FROM idempotency_records
  WHERE (expires_at, record_key) >= (to_timestamp($3::double precision), ''::bytea)
    AND expires_at <= statement_timestamp() AND (SELECT mine FROM turn)
  ORDER BY expires_at
  LIMIT $1::integer
  FOR UPDATE SKIP LOCKED
),
summed AS (
  SELECT record_key, expires_at, sum(bytes) OVER (ORDER BY expires_at, record_key) - bytes AS bytes_before
  FROM expired
),
batch AS MATERIALIZED (
  SELECT record_key, expires_at FROM summed WHERE bytes_before < $4::bigint
),
deleted AS (
  DELETE FROM idempotency_records AS record
  USING batch
  WHERE record.record_key = batch.record_key
  RETURNING 1
)
SELECT concat_ws(
  ' ', $5::text, mine,
  (SELECT count(*) FROM deleted),
  (SELECT count(*) FROM expired) < $1::integer AND (SELECT count(*) FROM expired) = (SELECT count(*) FROM batch),
  (SELECT extract(epoch FROM max(expires_at)) FROM batch)
) AS reply
FROM turn
`,
  'extend': `-- Extends the lease of a running attempt, never beyond its hard deadline.
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
`,
  'lock': `-- Locks the record's row in a transaction of the application, as its first statement, and sets a timeout on that transaction:
-- a process that hangs, is frozen or cut off keeps its key no longer. Since version 17 the timeout counts from here; before, it
-- bounds each statement and each pause between two of them. A shorter timeout that the application has set stays.
--
-- The row is locked by an insert with a conflict, which changes nothing in it. A read, by an index or not, would in a
-- serializable transaction also read neighbouring rows, and attempts at other keys, which write there, would abort it. The
-- check for conflicts of unique keys is not a read of the transaction.
--
-- The transaction is marked with the attempt's name until its end: complete-in-transaction.sql checks the mark.
--
-- $1  record key
-- $2  owner token
-- $3  fence
-- $4  rest of the max execution, ms
-- $5  how long to wait for another transaction that holds the row, ms: then the statement fails
-- $6  nonce
--
-- After the nonce: the settings, if the record is still the attempt's own, even with an expired lease. Nothing: it is not,
-- and the transaction must be rolled back, because a tombstone was inserted if the record was gone.
WITH previous_timeout AS MATERIALIZED (
  SELECT
    before,
    set_config(
      'lock_timeout',
      CASE WHEN extract(epoch FROM before::interval) * 1000 BETWEEN 1 AND $5::bigint THEN before ELSE $5::bigint::text END, true
    ) AS meanwhile
  FROM (SELECT current_setting('lock_timeout') AS before OFFSET 0) AS its_own
),
inserted AS (
  INSERT INTO idempotency_records AS record (
    record_key, state, token, fence, fingerprint, attempt, takeovers, expires_at
  )
  SELECT $1::bytea, 'released', $2::text, $3::bigint, '-', 1, 0, statement_timestamp()
  FROM previous_timeout
  ON CONFLICT (record_key) DO UPDATE
  SET lease_ms = record.lease_ms
  -- Evaluated on the locked row, and never true.
  WHERE CASE
    WHEN record.expires_at > date_trunc('milliseconds', statement_timestamp())
      AND record.state = 'in_progress' AND record.token = $2::text AND record.fence = $3::bigint
    THEN set_config('nestjs_idempotency.attempt', $2::text, true) IS NULL
    ELSE false
  END
  RETURNING 1
),
mine AS MATERIALIZED (
  -- In this order: an expression that does not depend on the count could be evaluated before the row is locked.
  SELECT CASE count(*) WHEN 0 THEN current_setting('nestjs_idempotency.attempt', true) = $2::text END AS locked
  FROM inserted
),
setting AS (
  SELECT name, (extract(epoch FROM current_setting(name)::interval) * 1000)::bigint AS before
  FROM unnest(
    CASE
      WHEN current_setting('server_version_num')::integer >= 170000 THEN ARRAY['transaction_timeout']
      ELSE ARRAY['statement_timeout', 'idle_in_transaction_session_timeout']
    END
  ) AS name
)
SELECT concat_ws(
  ' ', $6::text,
  string_agg(
    concat_ws(
      ' ',
      set_config(name, CASE WHEN setting.before BETWEEN 1 AND $4::bigint THEN setting.before ELSE $4::bigint END::text, true),
      set_config('lock_timeout', previous_timeout.before, true)
    ), ' '
  )
) AS reply
FROM mine, previous_timeout, setting
WHERE locked
`,
  'notify': `-- Notifies waiters that the record has ended. A separate statement: a failing NOTIFY (its queue is full, say) must not fail
-- the write of the end.
--
-- $1  channel of the table
-- $2  record key, in base64url
-- $3  nonce
--
-- After the nonce: nothing.
SELECT $3::text AS reply FROM pg_notify($1::text, $2::text)
`,
  'probe': `-- Checks whether the row of a record in progress is locked: by a running transactional attempt, whose lease is the lock.
--
-- $1  record key
-- $2  fence of the record
-- $3  nonce
--
-- After the nonce: a word if it is not locked. Nothing: it is locked, or the record has changed.
WITH free AS (
  SELECT concat_ws(' ', $3::text, 'free') AS reply
  FROM idempotency_records
  WHERE record_key = $1::bytea AND state = 'in_progress' AND fence = $2::bigint
  FOR SHARE SKIP LOCKED
)
SELECT coalesce((SELECT reply FROM free), $3::text) AS reply
`,
  'read': `-- Reads the record without changing it.
--
-- $1  record key
-- $2  nonce
--
-- After the nonce: the clock, in seconds, and the record if it exists, in the format of record-row.ts.
SELECT concat_ws(
  ' ', $2::text, extract(epoch FROM statement_timestamp()), state, token, fence, fingerprint, attempt, takeovers,
  extract(epoch FROM expires_at), extract(epoch FROM lease_until), lease_ms, extract(epoch FROM deadline), origin,
  encode(outcome_header, 'base64'), encode(outcome_body, 'base64')
) AS reply
FROM (SELECT $1::bytea AS wanted) AS asked LEFT JOIN idempotency_records ON record_key = wanted
`,
  'release': `-- Lets the operation run again at once: in progress -> released. Never deletes an outcome.
--
-- $1  record key
-- $2  owner token
-- $3  fence, or 0 to compare the token alone
-- $4  how long the tombstone is kept, ms
-- $5  nonce
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
    origin = NULL
  WHERE record_key = $1::bytea AND expires_at > date_trunc('milliseconds', statement_timestamp())
    AND state = 'in_progress' AND token = $2::text AND ($3::bigint = 0 OR fence = $3::bigint)
  RETURNING concat_ws(' ', $5::text, 'released') AS reply
)
SELECT coalesce((SELECT reply FROM released), $5::text) AS reply
`,
  'renew': `-- Renews the lease for a begin whose earlier copy acquired the record.
--
-- $1  record key
-- $2  owner token
-- $3  fingerprint
-- $4  lease, ms
-- $5  retention of the record in progress, ms
-- $6  nonce
--
-- After the nonce: the clock in seconds, fence, attempt, takeovers. Nothing: the record has changed.
--
-- It does not wait for the application: before the reply to its begin, an attempt has no transaction that could lock the
-- row.
WITH renewed AS (
  UPDATE idempotency_records
  SET
    lease_until = least(date_trunc('milliseconds', statement_timestamp()) + $4::bigint * interval '1 millisecond', deadline),
    lease_ms = $4::bigint,
    expires_at = date_trunc('milliseconds', statement_timestamp()) + $5::bigint * interval '1 millisecond'
  WHERE record_key = $1::bytea AND expires_at > date_trunc('milliseconds', statement_timestamp())
    AND state = 'in_progress' AND token = $2::text AND fingerprint = $3::text
  RETURNING concat_ws(' ', $6::text, extract(epoch FROM statement_timestamp()), fence, attempt, takeovers) AS reply
)
SELECT coalesce((SELECT reply FROM renewed), $6::text) AS reply
`,
  'restore': `-- Restores the outcome of a success whose record is gone. Never a failure: it could hide the effect of an attempt whose record
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
    outcome_header = excluded.outcome_header,
    outcome_body = excluded.outcome_body
  WHERE record.expires_at <= date_trunc('milliseconds', statement_timestamp())
  RETURNING concat_ws(' ', $8::text, 'restored') AS reply
)
SELECT coalesce((SELECT reply FROM restored), $8::text) AS reply
`,
  'take': `-- Acquires an existing record: expired, released by another attempt, or abandoned by one whose lease has expired.
-- All conditions are evaluated again, by this statement's clock and on the locked row.
--
-- $1 to $8 as in begin.sql
-- $9  whether the lease of another attempt may be taken over
-- $10 nonce
--
-- After the nonce: how (expired, released, abandoned), the clock in seconds, fence, attempt, takeovers. Nothing: nothing was
-- changed, because the record has changed, it is late, or another transaction has locked the row. This does not wait for that
-- transaction: it belongs to a running attempt, and the clock of this statement would be wrong after a wait.
WITH found AS (
  SELECT
    record_key,
    CASE
      WHEN expires_at <= date_trunc('milliseconds', statement_timestamp()) THEN 'expired'
      WHEN state = 'released' THEN 'released'
      ELSE 'abandoned'
    END AS how
  FROM idempotency_records AS record
  WHERE record_key = $1::bytea
    AND statement_timestamp() < to_timestamp($7::double precision)
    AND (
      expires_at <= date_trunc('milliseconds', statement_timestamp())
      OR (state = 'released' AND token <> $2::text)
      OR (
        state = 'in_progress' AND token <> $2::text AND fingerprint = $3::text AND $9::boolean
        -- A lease further ahead than its own length (the clock stepped back) counts as one of that length.
        AND least(lease_until, date_trunc('milliseconds', statement_timestamp()) + lease_ms * interval '1 millisecond') <= date_trunc('milliseconds', statement_timestamp())
      )
    )
  FOR UPDATE OF record SKIP LOCKED
),
taken AS (
  UPDATE idempotency_records AS record
  SET
    state = 'in_progress',
    token = $2::text,
    fence = greatest(record.fence + 1, (extract(epoch FROM statement_timestamp()) * 1000000)::bigint),
    fingerprint = $3::text,
    attempt = CASE how WHEN 'expired' THEN 1 ELSE record.attempt + 1 END,
    takeovers = CASE how WHEN 'expired' THEN 0 WHEN 'released' THEN record.takeovers ELSE record.takeovers + 1 END,
    lease_until = date_trunc('milliseconds', statement_timestamp()) + least($4::bigint, $5::bigint) * interval '1 millisecond',
    lease_ms = $4::bigint,
    deadline = date_trunc('milliseconds', statement_timestamp()) + $5::bigint * interval '1 millisecond',
    expires_at = date_trunc('milliseconds', statement_timestamp()) + $6::bigint * interval '1 millisecond',
    origin = $8::text,
    outcome_header = NULL,
    outcome_body = NULL
  FROM found
  WHERE record.record_key = found.record_key
  RETURNING concat_ws(
    ' ', $10::text, how, extract(epoch FROM statement_timestamp()), record.fence, record.attempt, record.takeovers
  ) AS reply
)
SELECT coalesce((SELECT reply FROM taken), $10::text) AS reply
`,
};

export const MIGRATION_TEXTS = {
  '001-records': `-- One row for each idempotency key: its record, see docs/protocol.md. Instants are of this server's clock.
CREATE TABLE idempotency_records (
  -- SHA-256 over scope, operation and key.
  record_key bytea PRIMARY KEY,
  state text NOT NULL CHECK (state IN ('in_progress', 'completed', 'failed', 'released')),
  -- Owner token of the attempt that wrote the record last, and its fencing token.
  token text NOT NULL,
  fence bigint NOT NULL,
  -- Digest of the request's content, or - without comparison. Text, since truncated base64url is not whole bytes.
  fingerprint text NOT NULL,
  attempt integer NOT NULL,
  takeovers integer NOT NULL,
  -- The lease and its length, and the hard deadline; a finished record keeps them as they were.
  lease_until timestamptz,
  lease_ms bigint,
  deadline timestamptz,
  -- From then on the record counts as absent, whether it has been deleted or not.
  expires_at timestamptz NOT NULL,
  origin text,
  -- UTF-8, as bytes: a database with another encoding would reject some characters, after the effect has happened.
  outcome_header bytea,
  outcome_body bytea,
  CHECK (
    state <> 'in_progress'
    OR (lease_until IS NOT NULL AND lease_ms IS NOT NULL AND deadline IS NOT NULL)
  ),
  CHECK ((state IN ('completed', 'failed')) = (outcome_header IS NOT NULL AND outcome_body IS NOT NULL))
)
-- Every record is updated at least once and deleted once: leave no more dead rows than a small table has.
WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

-- For deleting what has expired.
CREATE INDEX ON idempotency_records (expires_at);
`,
  '002-abandoned': `-- For finding what was left behind. It holds records in progress only, and of those the few that can be recovered. It spoils no
-- update that needed no new index entries (HOT): but for clamp.sql, each of them moves expires_at, which is in an index, too.
-- Writes wait while it is built, which reads each row once.
CREATE INDEX ON idempotency_records (lease_until) WHERE state = 'in_progress' AND origin IS NOT NULL;
`,
};
