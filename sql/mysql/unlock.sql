-- Takes the mark of lock.sql away. Values: key, token.
DELETE FROM idempotency_records_locks WHERE record_key = ? AND token = ?
