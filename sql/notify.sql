-- Notifies waiters that the record has ended. A separate statement: a failing NOTIFY (its queue is full, say) must not fail
-- the write of the end.
--
-- $1  channel of the table
-- $2  record key, in base64url
-- $3  nonce
--
-- After the nonce: nothing.
SELECT $3::text AS reply FROM pg_notify($1::text, $2::text)
