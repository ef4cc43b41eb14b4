-- Takes the record's row for a transaction of the application, as its first statement, and has the server end that
-- transaction after a while: no process that hangs, is frozen or cut off keeps its key for longer. Since version 17 that time
-- counts from here; before, it bounds each statement and each pause between two of them. A shorter one that the application
-- has set stays.
--
-- The row is locked by an insert that finds it there, and changes nothing in it. Whatever reads it, by an index or not, would
-- in a serializable transaction read its surroundings, too, and attempts at other keys, which write there, would abort it.
-- What looks for conflicts of unique keys is not a read of the transaction's.
--
-- The transaction is given the attempt's name. Its end takes the name away: complete-in-transaction.sql looks for it.
--
-- $1  record key
-- $2  owner token
-- $3  fence
-- $4  max execution that is left, ms
-- $5  how long to wait for somebody else who holds the row, ms: then the statement fails
-- $6  nonce
--
-- After the nonce: the settings, if the record is still the attempt's own, whether its lease is over or not. Nothing: it is not,
-- and the transaction must be rolled back, because a tombstone was inserted where there was no record.
WITH patience AS MATERIALIZED (
  SELECT
    before,
    set_config(
      'lock_timeout',
      CASE WHEN extract(epoch FROM before::interval) * 1000 BETWEEN 1 AND $5::bigint THEN before ELSE $5::bigint::text END, true
    ) AS meanwhile
  FROM (SELECT current_setting('lock_timeout') AS before OFFSET 0) AS its_own
),
inserted AS (
  INSERT INTO idempotency_records AS record (
    record_key, state, token, fence, fingerprint, attempt, takeovers, expires_at
  )
  SELECT $1::bytea, 'released', $2::text, $3::bigint, '-', 1, 0, statement_timestamp()
  FROM patience
  ON CONFLICT (record_key) DO UPDATE
  SET lease_ms = record.lease_ms
  -- Judged on the locked row, and never true.
  WHERE CASE
    WHEN record.expires_at > date_trunc('milliseconds', statement_timestamp())
      AND record.state = 'in_progress' AND record.token = $2::text AND record.fence = $3::bigint
    THEN set_config('nestjs_idempotency.attempt', $2::text, true) IS NULL
    ELSE false
  END
  RETURNING 1
),
mine AS MATERIALIZED (
  -- In this order: what does not depend on the count could be asked for before the row is locked.
  SELECT CASE count(*) WHEN 0 THEN current_setting('nestjs_idempotency.attempt', true) = $2::text END AS locked
  FROM inserted
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
SELECT concat_ws(
  ' ', $6::text,
  string_agg(
    concat_ws(
      ' ',
      set_config(name, CASE WHEN setting.before BETWEEN 1 AND $4::bigint THEN setting.before ELSE $4::bigint END::text, true),
      set_config('lock_timeout', patience.before, true)
    ), ' '
  )
) AS reply
FROM mine, patience, setting
WHERE locked
