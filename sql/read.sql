-- Reads the record without changing it, on the primary: the comment that begins it tells Pgpool-II to ask no replica.
--
-- $1  record key
-- $2  nonce
--
-- After the nonce: the clock, in seconds, and the record if it exists, in the format of record-row.ts.
/*NO LOAD BALANCE*/ SELECT concat_ws(
  ' ', $2::text, extract(epoch FROM statement_timestamp()), state, token, fence, fingerprint, attempt, takeovers,
  extract(epoch FROM expires_at), '#' || note, extract(epoch FROM lease_until), lease_ms, extract(epoch FROM deadline), origin,
  encode(outcome_header, 'base64'), encode(outcome_body, 'base64')
) AS reply
FROM (SELECT $1::bytea AS requested_key) AS request LEFT JOIN idempotency_records ON record_key = requested_key
