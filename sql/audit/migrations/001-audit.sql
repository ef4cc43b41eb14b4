-- What operators did: see docs/guides/audit.md. Nothing here updates or deletes a row.
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
