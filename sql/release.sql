-- Lets the operation run again at once: in progress -> released. Never deletes an outcome.
--
-- $1  record key
-- $2  owner token
-- $3  fence, or 0 to compare the token alone
-- $4  how long the tombstone is kept, ms
--
-- Changes one row, or none: the record stands otherwise.
UPDATE idempotency_records
SET
  state = 'released',
  lease_until = NULL,
  lease_ms = NULL,
  deadline = NULL,
  expires_at = date_trunc('milliseconds', statement_timestamp()) + $4::bigint * interval '1 millisecond',
  origin = NULL
WHERE record_key = $1::bytea AND expires_at > date_trunc('milliseconds', statement_timestamp())
  AND state = 'in_progress' AND token = $2::text AND ($3::bigint = 0 OR fence = $3::bigint)
