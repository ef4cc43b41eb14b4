-- Acquires an existing record: expired, released by another attempt, or abandoned by one whose lease has expired.
-- All conditions are evaluated again, by this statement's clock and on the locked row.
--
-- $1 to $9 as in begin.sql
-- $10 whether the lease of another attempt may be taken over
-- $11 nonce
--
-- After the nonce: how (expired, released, abandoned), the clock in seconds, fence, attempt, takeovers; after a takeover the
-- earlier attempt's note, if it has one. Nothing: nothing was changed, because the record has changed, it is late, or another
-- transaction has locked the row. This does not wait for that transaction: it belongs to a running attempt, and the clock of
-- this statement would be wrong after a wait.
WITH found AS (
  SELECT
    record_key,
    CASE
      WHEN expires_at <= date_trunc('milliseconds', statement_timestamp()) THEN 'expired'
      WHEN state = 'released' THEN 'released'
      ELSE 'abandoned'
    END AS how,
    note AS earlier_note
  FROM idempotency_records AS record
  WHERE record_key = $1::bytea
    AND statement_timestamp() < to_timestamp($7::double precision)
    AND (
      expires_at <= date_trunc('milliseconds', statement_timestamp())
      OR (state = 'released' AND token <> $2::text)
      OR (
        state = 'in_progress' AND token <> $2::text AND fingerprint = $3::text AND $10::boolean
        -- A lease further ahead than its own length (the clock stepped back) counts as one of that length.
        AND least(lease_until, date_trunc('milliseconds', statement_timestamp()) + lease_ms * interval '1 millisecond') <= date_trunc('milliseconds', statement_timestamp())
      )
    )
  FOR UPDATE OF record SKIP LOCKED
),
taken AS (
  UPDATE idempotency_records AS record
  SET
    state = 'in_progress',
    token = $2::text,
    fence = greatest(record.fence + 1, (extract(epoch FROM statement_timestamp()) * 1000000)::bigint),
    fingerprint = $3::text,
    attempt = CASE how WHEN 'expired' THEN 1 ELSE record.attempt + 1 END,
    takeovers = CASE how WHEN 'expired' THEN 0 WHEN 'released' THEN record.takeovers ELSE record.takeovers + 1 END,
    lease_until = date_trunc('milliseconds', statement_timestamp()) + least($4::bigint, $5::bigint) * interval '1 millisecond',
    lease_ms = $4::bigint,
    deadline = date_trunc('milliseconds', statement_timestamp()) + $5::bigint * interval '1 millisecond',
    expires_at = date_trunc('milliseconds', statement_timestamp()) + $6::bigint * interval '1 millisecond',
    origin = $8::text,
    note = CASE
      WHEN how <> 'expired' AND right($9::text, 1) = '<' THEN left(
        concat(
          $9::text, left(record.fence::text, -3), left(record.state, 1), split_part(earlier_note, ';', 1),
          substring(earlier_note FROM '<.*$')
        ), 240
      )
      ELSE coalesce($9::text, CASE WHEN how <> 'expired' THEN earlier_note END)
    END,
    outcome_header = NULL,
    outcome_body = NULL
  FROM found
  WHERE record.record_key = found.record_key
  RETURNING concat_ws(
    ' ', $11::text, how, extract(epoch FROM statement_timestamp()), record.fence, record.attempt, record.takeovers,
    CASE how WHEN 'abandoned' THEN earlier_note END
  ) AS reply
    , how, record.state, record.fence, record.attempt, record.fingerprint, record.note -- journal
)
, journal AS (INSERT INTO idempotency_journal SELECT $1::bytea, '', CASE how WHEN 'abandoned' THEN 'takeover' ELSE 'acquired' END, statement_timestamp(), state, fence, attempt, fingerprint, note, ':service', ':version' FROM taken) -- journal
SELECT coalesce((SELECT reply FROM taken), $11::text) AS reply
