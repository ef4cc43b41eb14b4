-- Locks the record and changes nothing. The lock is a write: this statement ends when the standbys that
-- synchronous_commit asks for have it, and with it all that came before, also what a backend stored that was terminated
-- while it waited for them.
--
-- $1  record key
SELECT 1 FROM idempotency_records WHERE record_key = $1::bytea FOR UPDATE
