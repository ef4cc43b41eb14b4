-- One row for each idempotency key: its record, see docs/explanation/protocol.md. Instants are of this server's clock.
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
