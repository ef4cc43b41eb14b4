-- Marks the attempt as running in this transaction. The token is its own: no two transactions wait for each other. Values: key,
-- token, rest of the max execution.
INSERT INTO idempotency_records_locks (record_key, token, locked_until)
VALUES (?, ?, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000 + ?)
