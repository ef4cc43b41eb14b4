--[[
Checks whether the record is abandoned: in progress, with an expired lease and an origin. Its only write shortens a lease
further ahead than its own length.

KEYS[1]  the record

ARGV[1]  nonce of this send
ARGV[2]  minimum time since the lease expired, ms

Replies, each after the nonce
  abandoned, fingerprint, origin
  other                                         in another state, or absent
  error UNKNOWNRECORD                           the value has an unknown format

Without free memory Redis allows the SET after a PEXPIREAT, or where the script says allow-oom.
]]
-- include: value
if string.sub(value, 1, 2) ~= '2p' then return nonce .. ' other' end
-- include: record
-- include: renew
if not state or origin == '-' then return nonce .. ' other' end
-- A lease further ahead than its own length: the clock stepped back.
local clamped = math.min(leaseUntil, now + leaseMs)
if clamped < leaseUntil then
  local at = expiresAt
  redis.call('PEXPIREAT', KEYS[1], at) -- without allow-oom
  redis.call('SET', KEYS[1], renewed(leaseMs, string.format('%.0f', expiresAt - now)), 'PXAT', at)
end
if now - clamped < tonumber(ARGV[2]) then return nonce .. ' other' end
return nonce .. ' abandoned ' .. fingerprint .. ' ' .. origin
