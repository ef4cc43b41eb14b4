-- Renews the lease for a begin whose earlier copy acquired the record.
--
-- $1  record key
-- $2  owner token
-- $3  fingerprint
-- $4  lease, ms
-- $5  retention of the record in progress, ms
--
-- One row: the clock in seconds, fence, attempt, takeovers. None: the record stands otherwise by now.
UPDATE idempotency_records
SET
  lease_until = least(date_trunc('milliseconds', statement_timestamp()) + $4::bigint * interval '1 millisecond', deadline),
  lease_ms = $4::bigint,
  expires_at = date_trunc('milliseconds', statement_timestamp()) + $5::bigint * interval '1 millisecond'
WHERE record_key = $1::bytea AND expires_at > date_trunc('milliseconds', statement_timestamp())
  AND state = 'in_progress' AND token = $2::text AND fingerprint = $3::text
RETURNING extract(epoch FROM statement_timestamp()) AS clock, fence, attempt, takeovers
