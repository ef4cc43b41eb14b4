-- For finding what was left behind. It holds records in progress only, and of those the few that can be recovered. It spoils no
-- update that needed no new index entries (HOT): but for clamp.sql, each of them moves expires_at, which is in an index, too.
-- Writes wait while it is built, which reads each row once.
CREATE INDEX ON idempotency_records (lease_until) WHERE state = 'in_progress' AND origin IS NOT NULL;
