-- Finds a blob, on the primary: the comment that begins it tells Pgpool-II to ask no replica.
--
-- $1  name of the blob
-- $2  nonce
--
-- After the nonce: the number of its last part, and the bytes of its first one; nothing if there is no blob.
/*NO LOAD BALANCE*/ SELECT concat_ws(
  ' ', $2::text,
  (SELECT max(part) FROM idempotency_blobs WHERE name = $1::text AND expires_at > statement_timestamp()),
  (SELECT octet_length(bytes) FROM idempotency_blobs WHERE name = $1::text AND part = 0 AND expires_at > statement_timestamp())
) AS reply
