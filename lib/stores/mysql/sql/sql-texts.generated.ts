// Made from sql/mysql/ by "npm run texts": change the files there.

export const STATEMENT_TEXTS = {
  'abandoned': `SELECT ? AS nonce, record.*
FROM (SELECT 1 AS one) AS one
LEFT JOIN (
  SELECT record_key, token, fingerprint, origin, recoverable_from
  FROM idempotency_records
  WHERE recoverable_from <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000 - ?
    AND expires_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000
    AND recoverable_from >= ? AND (recoverable_from > ? OR (recoverable_from = ? AND record_key > ?))
  ORDER BY recoverable_from, record_key
  LIMIT ?
) AS record ON 1 = 1
ORDER BY recoverable_from, record_key
`,
  'ahead': `SELECT ? AS nonce, record.record_key
FROM (SELECT 1 AS one) AS one
LEFT JOIN (
  SELECT record_key, recoverable_from, lease_ms
  FROM idempotency_records
  WHERE recoverable_from > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000
  ORDER BY recoverable_from DESC
  LIMIT ?
) AS record ON record.recoverable_from > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000 + record.lease_ms
`,
  'begin': `INSERT INTO idempotency_records (
  record_key, version, state, token, fence, fingerprint, attempt, takeovers,
  lease_ms, lease_until, deadline, expires_at, origin, recoverable_from, note
)
SELECT
  CAST(? AS BINARY), ?, 'in_progress', ?, LAST_INSERT_ID(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))), ?, 1, 0,
  ?, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000 + ?,
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000 + ?,
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000 + ?,
  ?, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000 + ?, ?
FROM DUAL
WHERE ? = 0 OR TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000 <= ?
ON DUPLICATE KEY UPDATE version = idempotency_records.version + LAST_INSERT_ID(0)
`,
  'complete-in-transaction': `UPDATE idempotency_records
SET
  version = ?, state = ?, expires_at = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000 + ?,
  outcome_header = ?, outcome_body = ?, note = COALESCE(LEFT(CONCAT(?, COALESCE(note, '')), 240), note), lease_until = NULL, lease_ms = NULL, deadline = NULL, origin = NULL, recoverable_from = NULL
WHERE record_key = ? AND token = ? AND (? = 0 OR fence = ?) AND state = 'in_progress'
  AND expires_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000
`,
  'complete': `UPDATE idempotency_records
SET
  version = LAST_INSERT_ID(?), state = ?, expires_at = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000 + ?,
  outcome_header = ?, outcome_body = ?, note = COALESCE(LEFT(CONCAT(?, COALESCE(note, '')), 240), note), lease_until = NULL, lease_ms = NULL, deadline = NULL, origin = NULL, recoverable_from = NULL
WHERE record_key = ? AND token = ? AND (? = 0 OR fence = ?) AND state = 'in_progress'
  AND expires_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000 AND lease_until > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000
`,
  'delete-locks': `DELETE FROM idempotency_records_locks
WHERE locked_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000
ORDER BY locked_until
LIMIT ?
`,
  'expired': `SELECT ? AS nonce, record.*
FROM (SELECT 1 AS one) AS one
LEFT JOIN (
  SELECT record_key, expires_at
  FROM idempotency_records
  WHERE expires_at >= ? AND expires_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000
  ORDER BY expires_at
  LIMIT ?
) AS record ON 1 = 1
ORDER BY expires_at
`,
  'has-version': `SELECT ? AS nonce, (SELECT count(*) FROM idempotency_records WHERE record_key = ? AND version = ?) AS found
`,
  'insert': `INSERT INTO idempotency_records (
  version, state, token, fence, fingerprint, attempt, takeovers, lease_until, lease_ms, deadline, expires_at,
  origin, recoverable_from, note, outcome_header, outcome_body, record_key
)
VALUES (LAST_INSERT_ID(?), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE version = idempotency_records.version + LAST_INSERT_ID(0)
`,
  'is-locked': `SELECT ? AS nonce, (
  SELECT count(*) FROM idempotency_records_locks
  WHERE record_key = ? AND token = ? AND locked_until > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000
) AS found
`,
  'is-own': `SELECT ? AS nonce, (
  SELECT count(*) FROM idempotency_records
  WHERE record_key = ? AND token = ? AND fence = ? AND state = 'in_progress'
    AND expires_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000
) AS found
`,
  'list': `SELECT ? AS nonce, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS now_us, record.*
FROM (SELECT 1 AS one) AS one
LEFT JOIN (
  SELECT
    record_key, version, state, token, fence, fingerprint, attempt, takeovers, lease_until, lease_ms, deadline, expires_at,
    origin, note
  FROM idempotency_records
  WHERE record_key > ? AND record_key BETWEEN ? AND ?
  ORDER BY record_key
  LIMIT ?
) AS record ON 1 = 1
ORDER BY record_key
`,
  'lock': `INSERT INTO idempotency_records_locks (record_key, token, locked_until)
VALUES (?, ?, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000 + ?)
`,
  'read': `SELECT ? AS nonce, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS now_us, record.*
FROM (SELECT 1 AS one) AS one
LEFT JOIN idempotency_records AS record ON record.record_key = ?
`,
  'unlock': `DELETE FROM idempotency_records_locks WHERE record_key = ? AND token = ?
`,
  'update': `UPDATE idempotency_records
SET
  version = LAST_INSERT_ID(?), state = ?, token = ?, fence = ?, fingerprint = ?, attempt = ?, takeovers = ?, lease_until = ?,
  lease_ms = ?, deadline = ?, expires_at = ?, origin = ?, recoverable_from = ?, note = ?, outcome_header = ?, outcome_body = ?
WHERE record_key = ? AND version = ?
`,
};

export const MIGRATION_TEXTS = {
  '001-records': `-- One row for each idempotency key: its record, see docs/explanation/protocol.md. Instants are milliseconds since 1970, of this
-- server's clock. Text is compared by its bytes.
CREATE TABLE IF NOT EXISTS idempotency_records (
  -- SHA-256 over scope, operation and key.
  record_key varbinary(64) NOT NULL PRIMARY KEY,
  -- Another random number after each write: a write names the one that it has read.
  version bigint NOT NULL,
  -- in_progress, completed, failed or released.
  state varchar(16) NOT NULL,
  -- Owner token of the attempt that wrote the record last, and its fencing token.
  token varchar(255) NOT NULL,
  fence bigint NOT NULL,
  -- Digest of the request's content, or - without comparison.
  fingerprint varchar(1024) NOT NULL,
  attempt integer NOT NULL,
  takeovers integer NOT NULL,
  -- The lease and its length, and the hard deadline, of a record in progress.
  lease_until bigint,
  lease_ms bigint,
  deadline bigint,
  -- From then on the record counts as absent, whether it has been deleted or not.
  expires_at bigint NOT NULL,
  origin text,
  -- The end of the lease, if the record is in progress and has an origin: for the reconciler.
  recoverable_from bigint,
  note varchar(240),
  outcome_header mediumblob,
  outcome_body longblob,
  KEY expiry (expires_at),
  KEY recoverable (recoverable_from)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- The attempts that run in a transaction of the application. A row is visible to READ UNCOMMITTED alone: it is deleted before its
-- transaction commits.
CREATE TABLE IF NOT EXISTS idempotency_records_locks (
  record_key varbinary(64) NOT NULL,
  token varchar(255) NOT NULL,
  -- From then on the transaction counts as over, though it may hang.
  locked_until bigint NOT NULL,
  PRIMARY KEY (record_key, token),
  KEY expiry (locked_until)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
`,
};
