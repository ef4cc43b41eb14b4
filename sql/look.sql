-- Reads the record without changing it.
--
-- $1  record key
--
-- One row: the clock, in seconds; the record, in the words of record-row.ts, and its outcome in base64, all null where there
-- is none.
SELECT
  extract(epoch FROM statement_timestamp()) AS clock,
  CASE WHEN state IS NOT NULL THEN concat_ws(
    ' ', state, token, fence, fingerprint, attempt, takeovers, extract(epoch FROM expires_at),
    extract(epoch FROM lease_until), lease_ms, extract(epoch FROM deadline), origin
  ) END AS record,
  encode(outcome_header, 'base64') AS outcome_header, encode(outcome_body, 'base64') AS outcome_body
FROM (SELECT $1::bytea AS wanted) AS asked LEFT JOIN idempotency_records ON record_key = wanted
