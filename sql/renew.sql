-- Renews the lease for a begin whose earlier copy acquired the record.
--
-- $1  record key
-- $2  owner token
-- $3  fingerprint
-- $4  lease, ms
-- $5  retention of the record in progress, ms
-- $6  nonce
--
-- After the nonce: the clock in seconds, fence, attempt, takeovers. Nothing: the record has changed.
--
-- It does not wait for the application: before the reply to its begin, an attempt has no transaction that could lock the
-- row.
WITH renewed AS (
  UPDATE idempotency_records
  SET
    lease_until = least(date_trunc('milliseconds', statement_timestamp()) + $4::bigint * interval '1 millisecond', deadline),
    lease_ms = $4::bigint,
    expires_at = date_trunc('milliseconds', statement_timestamp()) + $5::bigint * interval '1 millisecond'
  WHERE record_key = $1::bytea AND expires_at > date_trunc('milliseconds', statement_timestamp())
    AND state = 'in_progress' AND token = $2::text AND fingerprint = $3::text
  RETURNING concat_ws(' ', $6::text, extract(epoch FROM statement_timestamp()), fence, attempt, takeovers) AS reply
)
SELECT coalesce((SELECT reply FROM renewed), $6::text) AS reply
