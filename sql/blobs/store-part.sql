-- Stores a part under the name of its upload. A copy of the statement changes nothing.
--
-- $1  name of the upload
-- $2  number of the part, from 0
-- $3  bytes
-- $4  time until the part of an upload that is never finished expires, ms
-- $5  nonce
--
-- After the nonce: nothing.
WITH stored AS (
  INSERT INTO idempotency_blobs (name, part, bytes, expires_at)
  VALUES ($1::text, $2::integer, $3::bytea, statement_timestamp() + $4::bigint * interval '1 millisecond')
  ON CONFLICT (name, part) DO NOTHING
)
SELECT $5::text AS reply
