--[[
Extends the lease of a running attempt, never beyond its hard deadline.

KEYS[1]  the record

ARGV[1]  owner token
ARGV[2]  fence, or 0 to compare the token alone
ARGV[3]  lease, ms
ARGV[4]  retention of the record in progress, ms
ARGV[5]  nonce of this send

Replies, each after the nonce
  ok                   the lease runs from now
  revived              the same, though it had expired
  max_execution        the hard deadline has passed; nothing changed
  lost                 another attempt owns the record
  gone                 there is no record
  not_in_progress      this attempt's record is finished or released
  error UNKNOWNRECORD  the value has an unknown format and is left unchanged

The first write is a PEXPIREAT, which Redis allows without free memory; then it also allows the SET after it.
]]
local nonce = ARGV[5]
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

if not state then return { nonce, 'gone' } end
local mine = token == ARGV[1]
if state ~= 'p' then return { nonce, mine and 'not_in_progress' or 'lost' } end
if not mine or (ARGV[2] ~= '0' and fence ~= ARGV[2]) then return { nonce, 'lost' } end
if now >= tonumber(deadline) then return { nonce, 'max_execution' } end

local at = string.format('%.0f', now + ARGV[4])
local leaseEnd = string.format('%.0f', math.min(now + ARGV[3], deadline))
local line = '1 p ' .. fence .. ' ' .. leaseEnd .. ' ' .. ARGV[3] .. ' ' .. deadline .. ' ' .. at .. ' '
  .. attempt .. ' ' .. takeovers .. ' ' .. token .. ' ' .. fingerprint .. ' ' .. origin .. '\n'
redis.call('PEXPIREAT', KEYS[1], at)
redis.call('SET', KEYS[1], line, 'PXAT', at)
return { nonce, now >= tonumber(leaseUntil) and 'revived' or 'ok' }
