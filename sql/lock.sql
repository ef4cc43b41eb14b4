-- Takes the record's row for a transaction of the application, as its first statement, and has the server end that
-- transaction after a while: no process that hangs, is frozen or cut off keeps its key for longer. Since version 17 that time
-- counts from here; before, it bounds each statement and each pause between two of them. A shorter one that the application
-- has set stays.
--
-- $1  record key
-- $2  owner token
-- $3  fence
-- $4  max execution that is left, ms
--
-- One row if the record is still the attempt's own, whether its lease is over or not. None: it is not, or somebody holds it
-- at this moment.
WITH mine AS MATERIALIZED (
  SELECT 1
  FROM idempotency_records
  WHERE record_key = $1::bytea AND expires_at > date_trunc('milliseconds', statement_timestamp())
    AND state = 'in_progress' AND token = $2::text AND fence = $3::bigint
  FOR UPDATE SKIP LOCKED
),
setting AS (
  SELECT name, (extract(epoch FROM current_setting(name)::interval) * 1000)::bigint AS before
  FROM unnest(
    CASE
      WHEN current_setting('server_version_num')::integer >= 170000 THEN ARRAY['transaction_timeout']
      ELSE ARRAY['statement_timeout', 'idle_in_transaction_session_timeout']
    END
  ) AS name
)
SELECT
  set_config(name, CASE WHEN before BETWEEN 1 AND $4::bigint THEN before ELSE $4::bigint END::text, true)
FROM mine, setting
