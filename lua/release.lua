--[[
Lets the operation run again at once: in progress -> released. Never deletes an outcome.

KEYS[1]  the record

ARGV[1]  owner token
ARGV[2]  fence, or 0 to compare the token alone
ARGV[3]  how long the tombstone is kept, ms
ARGV[4]  how to notify waiters of the record: PUBLISH or SPUBLISH; '-' for not at all
ARGV[5]  nonce of this send

Replies, each after the nonce
  ok                   released
  already              an earlier copy of this command released it
  not_in_progress      this attempt's outcome is stored
  lost                 another attempt owns the record
  gone                 there is no record
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
if token ~= ARGV[1] then return { nonce, 'lost' } end
if state ~= 'p' then return { nonce, state == 'r' and 'already' or 'not_in_progress' } end
if ARGV[2] ~= '0' and fence ~= ARGV[2] then return { nonce, 'lost' } end

local at = string.format('%.0f', now + ARGV[3])
local line = '1 r ' .. fence .. ' ' .. at .. ' ' .. attempt .. ' ' .. takeovers .. ' '
  .. token .. ' ' .. fingerprint .. '\n'
redis.call('PEXPIREAT', KEYS[1], at)
redis.call('SET', KEYS[1], line, 'PXAT', at)
-- The write is done: a failing PUBLISH must not fail it.
if ARGV[4] ~= '-' then redis.pcall(ARGV[4], KEYS[1], '') end
return { nonce, 'ok' }
