// Made from sql/ by "npm run texts": change the files there.

export const STATEMENT_TEXTS = {
  'abandoned': `WITH ahead AS (
  SELECT record_key
  FROM idempotency_records
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
  'acquire': `WITH found AS (
  SELECT
    record_key,
    CASE
      WHEN expires_at <= date_trunc('milliseconds', statement_timestamp()) THEN 'expired'
      WHEN state = 'released' THEN 'released'
      ELSE 'abandoned'
    END AS how,
    note AS earlier_note
  FROM idempotency_records AS record
  WHERE record_key = $1::bytea
    AND statement_timestamp() < to_timestamp($7::double precision)
    AND (
      expires_at <= date_trunc('milliseconds', statement_timestamp())
      OR (state = 'released' AND token <> $2::text)
      OR (
        state = 'in_progress' AND token <> $2::text AND fingerprint = $3::text AND $10::boolean
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
    note = CASE
      WHEN how <> 'expired' AND right($9::text, 1) = '<' THEN left(
        concat(
          $9::text, left(record.fence::text, -3), left(record.state, 1), split_part(earlier_note, ';', 1),
          substring(earlier_note FROM '<.*$')
        ), 240
      )
      ELSE coalesce($9::text, CASE WHEN how <> 'expired' THEN earlier_note END)
    END,
    outcome_header = NULL,
    outcome_body = NULL
  FROM found
  WHERE record.record_key = found.record_key
  RETURNING concat_ws(
    ' ', $11::text, how, extract(epoch FROM statement_timestamp()), record.fence, record.attempt, record.takeovers,
    CASE how WHEN 'abandoned' THEN earlier_note END
  ) AS reply
    , how, record.state, record.fence, record.attempt, record.fingerprint, record.note -- journal
)
, journal AS (INSERT INTO idempotency_journal SELECT $1::bytea, '', CASE how WHEN 'abandoned' THEN 'takeover' ELSE 'acquired' END, statement_timestamp(), state, fence, attempt, fingerprint, note, ':service', ':version' FROM taken) -- journal
SELECT coalesce((SELECT reply FROM taken), $11::text) AS reply
`,
  'amend': `WITH found AS (
  SELECT record_key
  FROM idempotency_records AS record
  WHERE record_key = $1::bytea AND expires_at > date_trunc('milliseconds', statement_timestamp())
    AND token <> $2::text AND state = $3::text AND fence = $4::bigint
    AND date_trunc('milliseconds', statement_timestamp()) >= to_timestamp($5::double precision)
    AND (
      state <> 'in_progress' OR $6::boolean
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
`,
  'begin': `WITH found AS MATERIALIZED (
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
`,
  'clamp': `WITH too_far AS (
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
  'complete-in-transaction': `WITH stored AS (
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
  CASE txid_status($9::bigint) WHEN 'committed' THEN 'committed' END,
  (SELECT 'stored' FROM stored WHERE state = $4::text)) AS reply
`,
  'complete-released': `WITH stored AS (
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
`,
  'complete': `WITH stored AS (
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
`,
  'confirm': `WITH locked AS (
  SELECT $2::text AS reply FROM idempotency_records WHERE record_key = $1::bytea FOR UPDATE
)
SELECT coalesce((SELECT reply FROM locked), $2::text) AS reply
`,
  'delete-expired': `WITH deletion_lock AS MATERIALIZED (
  SELECT pg_try_advisory_xact_lock($2::bigint) AS mine
),
expired AS (
  SELECT record_key, expires_at, coalesce(pg_column_size(outcome_body), 0) AS bytes
  FROM idempotency_records
  WHERE (expires_at, record_key) >= (to_timestamp($3::double precision), ''::bytea)
    AND expires_at <= statement_timestamp() AND (SELECT mine FROM deletion_lock)
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
FROM deletion_lock
`,
  'extend': `WITH extended AS (
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
  'list': `/*NO LOAD BALANCE*/ SELECT concat_ws(
  ' ', $5::text, extract(epoch FROM statement_timestamp()),
  string_agg(
    concat_ws(
      ' ', encode(record_key, 'base64'), state, token, fence, fingerprint, attempt, takeovers,
      extract(epoch FROM expires_at), '#' || note, extract(epoch FROM lease_until), lease_ms, extract(epoch FROM deadline), origin
    ),
    E'\\n' ORDER BY record_key
  )
) AS reply
FROM (
  SELECT *
  FROM idempotency_records
  WHERE record_key > $1::bytea AND record_key BETWEEN $2::bytea AND $3::bytea
  ORDER BY record_key
  LIMIT $4::integer
) AS record
`,
  'lock': `WITH previous_timeout AS MATERIALIZED (
  SELECT
    before,
    set_config(
      'lock_timeout',
      CASE WHEN extract(epoch FROM before::interval) * 1000 BETWEEN 1 AND $5::bigint THEN before ELSE $5::bigint::text END, true
    ) AS new_timeout
  FROM (SELECT current_setting('lock_timeout') AS before OFFSET 0) AS session_timeout
),
inserted AS (
  INSERT INTO idempotency_records AS record (
    record_key, state, token, fence, fingerprint, attempt, takeovers, expires_at
  )
  SELECT $1::bytea, 'released', $2::text, $3::bigint, '-', 1, 0, statement_timestamp()
  FROM previous_timeout
  ON CONFLICT (record_key) DO UPDATE
  SET lease_ms = record.lease_ms
  WHERE CASE
    WHEN record.expires_at > date_trunc('milliseconds', statement_timestamp())
      AND record.state = 'in_progress' AND record.token = $2::text AND record.fence = $3::bigint
    THEN set_config('nestjs_idempotency.attempt', $2::text, true) IS NULL
    ELSE false
  END
  RETURNING 1
),
mine AS MATERIALIZED (
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
  ),
  CASE WHEN count(*) > 0 THEN txid_current() END
) AS reply
FROM mine, previous_timeout, setting
WHERE locked
`,
  'notify': `SELECT $3::text AS reply FROM pg_notify($1::text, $2::text)
`,
  'probe': `WITH free AS (
  SELECT concat_ws(' ', $3::text, 'free') AS reply
  FROM idempotency_records
  WHERE record_key = $1::bytea AND state = 'in_progress' AND fence = $2::bigint
  FOR SHARE SKIP LOCKED
)
SELECT coalesce((SELECT reply FROM free), $3::text) AS reply
`,
  'read': `/*NO LOAD BALANCE*/ SELECT concat_ws(
  ' ', $2::text, extract(epoch FROM statement_timestamp()), state, token, fence, fingerprint, attempt, takeovers,
  extract(epoch FROM expires_at), '#' || note, extract(epoch FROM lease_until), lease_ms, extract(epoch FROM deadline), origin,
  encode(outcome_header, 'base64'), encode(outcome_body, 'base64')
) AS reply
FROM (SELECT $1::bytea AS requested_key) AS request LEFT JOIN idempotency_records ON record_key = requested_key
`,
  'release': `WITH released AS (
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
`,
  'renew': `WITH renewed AS (
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
  'restore': `WITH restored AS (
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
`,
};

export const MIGRATION_TEXTS = {
  '001-records': `-- One row for each idempotency key: its record, see docs/explanation/protocol.md. Instants are of this server's clock.
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
  '002-abandoned': `-- Index for the reconciler: in-progress records that can be recovered. It prevents no HOT update, since every statement but
-- clamp.sql changes the indexed expires_at anyway.
-- Writes wait while it is built, which reads each row once.
CREATE INDEX ON idempotency_records (lease_until) WHERE state = 'in_progress' AND origin IS NOT NULL;
`,
  '003-note': `-- Opaque text of the caller, for example the trace of the execution. Null in all existing rows, none of which is rewritten.
ALTER TABLE idempotency_records ADD COLUMN note text;
`,
};

export const BLOB_STATEMENT_TEXTS = {
  'delete-expired': `WITH deletion_lock AS MATERIALIZED (
  SELECT pg_try_advisory_xact_lock($2::bigint) AS mine
),
expired AS (
  SELECT name, part, expires_at, pg_column_size(bytes) AS size
  FROM idempotency_blobs
  WHERE (expires_at, name) >= (to_timestamp($3::double precision), '')
    AND expires_at <= statement_timestamp() AND (SELECT mine FROM deletion_lock)
  ORDER BY expires_at
  LIMIT $1::integer
  FOR UPDATE SKIP LOCKED
),
summed AS (
  SELECT name, part, expires_at, sum(size) OVER (ORDER BY expires_at, name, part) - size AS size_before
  FROM expired
),
batch AS MATERIALIZED (
  SELECT name, part, expires_at FROM summed WHERE size_before < $4::bigint
),
deleted AS (
  DELETE FROM idempotency_blobs AS blob
  USING batch
  WHERE blob.name = batch.name AND blob.part = batch.part
  RETURNING 1
)
SELECT concat_ws(
  ' ', $5::text, mine,
  (SELECT count(*) FROM deleted),
  (SELECT count(*) FROM expired) < $1::integer AND (SELECT count(*) FROM expired) = (SELECT count(*) FROM batch),
  (SELECT extract(epoch FROM max(expires_at)) FROM batch)
) AS reply
FROM deletion_lock
`,
  'delete': `WITH deleted AS (DELETE FROM idempotency_blobs WHERE name = $1::text)
SELECT $2::text AS reply
`,
  'find': `/*NO LOAD BALANCE*/ SELECT concat_ws(
  ' ', $2::text,
  (SELECT max(part) FROM idempotency_blobs WHERE name = $1::text AND expires_at > statement_timestamp()),
  (SELECT octet_length(bytes) FROM idempotency_blobs WHERE name = $1::text AND part = 0 AND expires_at > statement_timestamp())
) AS reply
`,
  'publish': `WITH published AS (
  UPDATE idempotency_blobs
  SET name = $2::text, expires_at = statement_timestamp() + $3::bigint * interval '1 millisecond'
  WHERE name = $1::text AND NOT EXISTS (SELECT FROM idempotency_blobs AS present WHERE present.name = $2::text)
  RETURNING 1
)
SELECT concat_ws(' ', $4::text, (SELECT count(*) FROM published)) AS reply
`,
  'read-part': `/*NO LOAD BALANCE*/ SELECT concat_ws(' ', $3::text, encode(bytes, 'base64')) AS reply
FROM (SELECT $1::text AS requested_name, $2::integer AS requested_part) AS request
LEFT JOIN idempotency_blobs ON name = requested_name AND part = requested_part
`,
  'store-part': `WITH stored AS (
  INSERT INTO idempotency_blobs (name, part, bytes, expires_at)
  VALUES ($1::text, $2::integer, $3::bytea, statement_timestamp() + $4::bigint * interval '1 millisecond')
  ON CONFLICT (name, part) DO NOTHING
)
SELECT $5::text AS reply
`,
};

export const BLOB_MIGRATION_TEXTS = {
  '001-blobs': `-- Large outcomes, in parts, see docs/reference/blob-stores.md. Instants are of this server's clock.
CREATE TABLE idempotency_blobs (
  -- Of the blob; until all of its parts are there, of the upload.
  name text NOT NULL,
  -- From 0. All but the last have as many bytes as the first.
  part integer NOT NULL,
  bytes bytea NOT NULL,
  -- From then on the blob counts as absent, whether it has been deleted or not.
  expires_at timestamptz NOT NULL,
  PRIMARY KEY (name, part)
)
-- Every part is updated once and deleted once.
WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

-- What can be compressed or must be encrypted is so before it comes here.
ALTER TABLE idempotency_blobs ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- For deleting what has expired.
CREATE INDEX ON idempotency_blobs (expires_at);
`,
};

export const AUDIT_STATEMENT_TEXTS = {
  'append': `WITH entry AS (SELECT $2::jsonb AS entry),
added AS (
  INSERT INTO idempotency_audit (id, at, phase, action, record_key, actor, reason, entry)
  SELECT
    $1::uuid, (entry ->> 'at')::timestamptz, entry ->> 'phase', entry ->> 'action', entry ->> 'recordKey', entry ->> 'actor',
    entry ->> 'reason', entry
  FROM entry
  ON CONFLICT DO NOTHING
)
SELECT $3::text AS reply
`,
};

export const AUDIT_MIGRATION_TEXTS = {
  '001-audit': `-- What operators did: see docs/guides/audit.md. Nothing here updates or deletes a row.
CREATE TABLE idempotency_audit (
  -- Of the entry: a copy of its command adds nothing.
  id uuid PRIMARY KEY,
  -- By the clock of the process.
  at timestamptz NOT NULL,
  -- By this server's clock.
  noted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- 'intent' before an act, 'result' after it.
  phase text NOT NULL,
  action text NOT NULL,
  -- The name of the record, a digest.
  record_key text NOT NULL,
  actor text NOT NULL,
  reason text NOT NULL,
  -- All of it, as it was given.
  entry jsonb NOT NULL
);

-- For what was done to a record, and in a time.
CREATE INDEX ON idempotency_audit (record_key);
CREATE INDEX ON idempotency_audit (at);
`,
};

export const JOURNAL_STATEMENT_TEXTS = {
  'delete-expired': `WITH deletion_lock AS MATERIALIZED (
  SELECT pg_try_advisory_xact_lock($2::bigint) AS mine, least($1::integer, $4::bigint / 512) AS most
),
expired AS MATERIALIZED (
  SELECT record_key, fence, token, kind, at
  FROM idempotency_journal
  WHERE at >= to_timestamp($3::double precision)
    AND at <= statement_timestamp() - ':retention'::interval AND (SELECT mine FROM deletion_lock)
  ORDER BY at
  LIMIT (SELECT most FROM deletion_lock)
),
deleted AS (
  DELETE FROM idempotency_journal AS entry
  USING expired
  WHERE entry.record_key = expired.record_key AND entry.fence = expired.fence AND entry.token = expired.token
    AND entry.kind = expired.kind
  RETURNING 1
)
SELECT concat_ws(
  ' ', $5::text, mine,
  (SELECT count(*) FROM deleted),
  (SELECT count(*) FROM expired) < most,
  (SELECT extract(epoch FROM max(at)) FROM expired)
) AS reply
FROM deletion_lock
`,
  'superseded': `WITH added AS (
  INSERT INTO idempotency_journal
  VALUES (
    $1::bytea, $2::text, 'superseded', statement_timestamp(), $3::text, $4::bigint, $5::integer, $6::text, $7::text,
    ':service', ':version'
  )
  ON CONFLICT DO NOTHING
)
SELECT $8::text AS reply
`,
};

export const JOURNAL_MIGRATION_TEXTS = {
  '001-journal': `-- What became of records: see docs/guides/audit.md. The store adds a row in the statement that changes the record, and deletes
-- those whose retention is over. Nothing here updates a row. The statements name no columns: new ones follow at the end.
CREATE TABLE idempotency_journal (
  record_key bytea NOT NULL,
  -- Of an operator's act, or of a superseded attempt, so that a copy of its command adds nothing; else empty.
  token text COLLATE "C" NOT NULL,
  -- acquired, takeover, completed, restored, released, superseded or settled. A CHECK would be parsed at each statement.
  kind text COLLATE "C" NOT NULL,
  -- By this server's clock.
  at timestamptz NOT NULL,
  -- Of the record, from this entry on.
  state text NOT NULL,
  -- Fencing token of the attempt; 0 if it never had one.
  fence bigint NOT NULL,
  -- How many attempts the record has had.
  attempt integer NOT NULL,
  -- Digest of the request's content.
  fingerprint text NOT NULL,
  -- The record's note, such as the trace of the execution.
  note text,
  service text NOT NULL,
  version text NOT NULL,
  PRIMARY KEY (record_key, fence, kind, token)
);

-- For what happened in a time, and for deleting what is old.
CREATE INDEX ON idempotency_journal (at);
`,
};
