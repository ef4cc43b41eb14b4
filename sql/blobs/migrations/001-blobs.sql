-- Large outcomes, in parts, see docs/reference/blob-stores.md. Instants are of this server's clock.
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
