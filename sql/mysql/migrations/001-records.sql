-- One row for each idempotency key: its record, see docs/explanation/protocol.md. Instants are milliseconds since 1970, of this
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
