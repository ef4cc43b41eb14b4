--[[
Checks whether the record is abandoned: in progress, with an expired lease and an origin. Its only write shortens a lease
further ahead than its own length.

KEYS[1]  the record

ARGV[1]  minimum time since the lease expired, ms
ARGV[2]  nonce of this send

Replies, each after the nonce
  abandoned, fingerprint, origin
  other                                         in another state, or absent
  error UNKNOWNRECORD                           the value has an unknown format

The first write is a PEXPIREAT, which Redis allows without free memory; then it also allows the SET after it.
]]
local nonce = ARGV[2]
-- A finished record may be long; its first bytes distinguish it from one in progress.
if redis.call('GETRANGE', KEYS[1], 0, 3) ~= '1 p ' then return { nonce, 'other' } end

local time = redis.call('TIME')
local nowUs = time[1] * 1000000 + time[2]
local now = math.floor(nowUs / 1000)

-- Reading the record: the same lines in every script. A finished one may be long: its first line is all that is read.
local value = redis.call('GETRANGE', KEYS[1], 0, 255)
local function readAll() value = redis.call('GET', KEYS[1]) end
-- An empty value is not an absent one, and an origin may be long.
if value == '' or #value == 256 and not string.find(value, '^1 [cfr] [^\n]*\n') then readAll() end
local state, fence, leaseUntil, leaseMs, deadline, expiresAt, attempt, takeovers, token, fingerprint, origin, rest
if value then
  state, fence, leaseUntil, leaseMs, deadline, expiresAt, attempt, takeovers, token, fingerprint, origin =
    string.match(value, '^1 (p) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (%S+) (%S+)\n$')
  if not state then
    state, fence, expiresAt, attempt, takeovers, token, fingerprint, rest =
      string.match(value, '^1 ([cfr]) (%d+) (%d+) (%d+) (%d+) (%S+) (%S+)\n()')
  end
  if not state then return redis.error_reply('UNKNOWNRECORD the key holds no record of format 1') end
  if tonumber(expiresAt) <= now then state = nil end
end

if not state or origin == '-' then return { nonce, 'other' } end
-- A lease further ahead than its own length: the clock stepped back.
local clamped = math.min(leaseUntil, now + leaseMs)
if clamped < tonumber(leaseUntil) then
  local line = '1 p ' .. fence .. ' ' .. string.format('%.0f', clamped) .. ' ' .. leaseMs .. ' ' .. deadline .. ' ' .. expiresAt
    .. ' ' .. attempt .. ' ' .. takeovers .. ' ' .. token .. ' ' .. fingerprint .. ' ' .. origin .. '\n'
  redis.call('PEXPIREAT', KEYS[1], expiresAt)
  redis.call('SET', KEYS[1], line, 'PXAT', expiresAt)
end
if now - clamped < tonumber(ARGV[1]) then return { nonce, 'other' } end
return { nonce, 'abandoned', fingerprint, origin }
