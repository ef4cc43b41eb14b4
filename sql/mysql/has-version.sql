-- Whether the transaction has written this version. Values: nonce, key, version.
SELECT ? AS nonce, (SELECT count(*) FROM idempotency_records WHERE record_key = ? AND version = ?) AS found
