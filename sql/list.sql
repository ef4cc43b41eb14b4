-- Reads the next records by their keys, without their outcomes, on the primary.
--
-- $1  key of the last record of the page before; empty for the first page
-- $2  lowest key
-- $3  highest key
-- $4  maximum number of records
-- $5  nonce
--
-- After the nonce: the clock in seconds; then a line for each record: its key in base64, and the record in the format of
-- record-row.ts.
/*NO LOAD BALANCE*/ SELECT concat_ws(
  ' ', $5::text, extract(epoch FROM statement_timestamp()),
  string_agg(
    concat_ws(
      ' ', encode(record_key, 'base64'), state, token, fence, fingerprint, attempt, takeovers,
      extract(epoch FROM expires_at), '#' || note, extract(epoch FROM lease_until), lease_ms, extract(epoch FROM deadline), origin
    ),
    E'\n' ORDER BY record_key
  )
) AS reply
FROM (
  SELECT *
  FROM idempotency_records
  WHERE record_key > $1::bytea AND record_key BETWEEN $2::bytea AND $3::bytea
  ORDER BY record_key
  LIMIT $4::integer
) AS record
