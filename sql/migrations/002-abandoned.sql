-- Index for the reconciler: in-progress records that can be recovered. It prevents no HOT update, since every statement but
-- clamp.sql changes the indexed expires_at anyway.
-- Writes wait while it is built, which reads each row once.
CREATE INDEX ON idempotency_records (lease_until) WHERE state = 'in_progress' AND origin IS NOT NULL;
