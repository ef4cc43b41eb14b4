-- Reads a part of a blob, on the primary.
--
-- $1  name of the blob
-- $2  number of the part
-- $3  nonce
--
-- After the nonce: its bytes, in base64; nothing if it is absent.
/*NO LOAD BALANCE*/ SELECT concat_ws(' ', $3::text, encode(bytes, 'base64')) AS reply
FROM (SELECT $1::text AS requested_name, $2::integer AS requested_part) AS request
LEFT JOIN idempotency_blobs ON name = requested_name AND part = requested_part
