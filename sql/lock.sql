-- Locks the record's row in a transaction of the application, as its first statement, and sets a timeout on that transaction:
-- a process that hangs, is frozen or cut off keeps its key no longer. Since version 17 the timeout counts from here; before, it
-- bounds each statement and each pause between two of them. A shorter timeout that the application has set stays.
--
-- The row is locked by an insert with a conflict, which changes nothing in it. A read, by an index or not, would in a
-- serializable transaction also read neighbouring rows, and attempts at other keys, which write there, would abort it. The
-- check for conflicts of unique keys is not a read of the transaction.
--
-- The transaction is marked with the attempt's name until its end: complete-in-transaction.sql checks the mark.
--
-- $1  record key
-- $2  owner token
-- $3  fence
-- $4  rest of the max execution, ms
-- $5  how long to wait for another transaction that holds the row, ms: then the statement fails
-- $6  nonce
--
-- After the nonce: the settings and, as the last word, the id of the transaction, if the record is still the attempt's own, even
-- with an expired lease. Nothing: it is not, and the transaction must be rolled back, because a tombstone was inserted if the
-- record was gone.
WITH previous_timeout AS MATERIALIZED (
  SELECT
    before,
    set_config(
      'lock_timeout',
      CASE WHEN extract(epoch FROM before::interval) * 1000 BETWEEN 1 AND $5::bigint THEN before ELSE $5::bigint::text END, true
    ) AS new_timeout
  FROM (SELECT current_setting('lock_timeout') AS before OFFSET 0) AS session_timeout
),
inserted AS (
  INSERT INTO idempotency_records AS record (
    record_key, state, token, fence, fingerprint, attempt, takeovers, expires_at
  )
  SELECT $1::bytea, 'released', $2::text, $3::bigint, '-', 1, 0, statement_timestamp()
  FROM previous_timeout
  ON CONFLICT (record_key) DO UPDATE
  SET lease_ms = record.lease_ms
  -- Evaluated on the locked row, and never true.
  WHERE CASE
    WHEN record.expires_at > date_trunc('milliseconds', statement_timestamp())
      AND record.state = 'in_progress' AND record.token = $2::text AND record.fence = $3::bigint
    THEN set_config('nestjs_idempotency.attempt', $2::text, true) IS NULL
    ELSE false
  END
  RETURNING 1
),
mine AS MATERIALIZED (
  -- In this order: an expression that does not depend on the count could be evaluated before the row is locked.
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
      set_config('lock_timeout', previous_timeout.before, true)
    ), ' '
  ),
  CASE WHEN count(*) > 0 THEN txid_current() END
) AS reply
FROM mine, previous_timeout, setting
WHERE locked
