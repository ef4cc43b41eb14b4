-- Adds an entry to the audit.
--
-- $1  id of the entry
-- $2  the entry, as JSON
-- $3  nonce
--
-- After the nonce: nothing.
WITH entry AS (SELECT $2::jsonb AS entry),
added AS (
  INSERT INTO idempotency_audit (id, at, phase, action, record_key, actor, reason, entry)
  SELECT
    $1::uuid, (entry ->> 'at')::timestamptz, entry ->> 'phase', entry ->> 'action', entry ->> 'recordKey', entry ->> 'actor',
    entry ->> 'reason', entry
  FROM entry
  ON CONFLICT DO NOTHING
)
SELECT $3::text AS reply
