-- What became of records: see docs/guides/audit.md. The store adds a row in the statement that changes the record, and deletes
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
