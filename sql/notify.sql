-- Tells those who wait for the record that it has ended. A statement of its own: a server that cannot tell anybody (its queue
-- is full, say) must not make the end itself fail.
--
-- $1  channel of the table
-- $2  record key, in base64url
-- $3  nonce
--
-- After the nonce: nothing.
SELECT $3::text AS reply FROM pg_notify($1::text, $2::text)
