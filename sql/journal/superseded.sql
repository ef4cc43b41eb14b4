-- Adds the entry of an attempt whose outcome was not stored, because another's is. It changes no record: a copy of this
-- statement adds nothing.
--
-- $1  record key
-- $2  owner token of the attempt
-- $3  state of the record
-- $4  fence of the attempt, or 0
-- $5  attempts of the record
-- $6  fingerprint of the record
-- $7  note of the record, or null
-- $8  nonce
--
-- After the nonce: nothing.
WITH added AS (
  INSERT INTO idempotency_journal
  VALUES (
    $1::bytea, $2::text, 'superseded', statement_timestamp(), $3::text, $4::bigint, $5::integer, $6::text, $7::text,
    ':service', ':version'
  )
  ON CONFLICT DO NOTHING
)
SELECT $8::text AS reply
