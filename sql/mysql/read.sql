-- Reads the record and the clock in microseconds. Values: nonce, key. One row, without a version if there is no record.
SELECT ? AS nonce, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS now_us, record.*
FROM (SELECT 1 AS one) AS one
LEFT JOIN idempotency_records AS record ON record.record_key = ?
