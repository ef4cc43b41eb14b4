-- Locks the record without changing it. The lock is a write: this statement ends when the standbys of synchronous_commit have
-- it and everything before it, including what a backend stored that was terminated while it waited for them.
--
-- $1  record key
-- $2  nonce
--
-- After the nonce: nothing.
WITH locked AS (
  SELECT $2::text AS reply FROM idempotency_records WHERE record_key = $1::bytea FOR UPDATE
)
SELECT coalesce((SELECT reply FROM locked), $2::text) AS reply
