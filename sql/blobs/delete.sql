-- Deletes a blob, or the parts of an upload.
--
-- $1  name
-- $2  nonce
--
-- After the nonce: nothing.
WITH deleted AS (DELETE FROM idempotency_blobs WHERE name = $1::text)
SELECT $2::text AS reply
