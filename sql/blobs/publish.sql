-- Gives the parts of an upload the name of their blob, all at once, unless there is one. Their bytes are not written again.
--
-- $1  name of the upload
-- $2  name of the blob
-- $3  time until the blob expires, ms
-- $4  nonce
--
-- After the nonce: how many parts the blob has now; 0 if there was one, or an earlier copy of the statement was executed.
WITH published AS (
  UPDATE idempotency_blobs
  SET name = $2::text, expires_at = statement_timestamp() + $3::bigint * interval '1 millisecond'
  WHERE name = $1::text AND NOT EXISTS (SELECT FROM idempotency_blobs AS present WHERE present.name = $2::text)
  RETURNING 1
)
SELECT concat_ws(' ', $4::text, (SELECT count(*) FROM published)) AS reply
