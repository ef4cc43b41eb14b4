--[[
Stores the outcome, once and for all: in progress -> completed or failed.

KEYS[1]  the record

ARGV[1]  owner token
ARGV[2]  fence, or 0 to compare the token alone
ARGV[3]  'c' completed or 'f' failed
ARGV[4]  retention of the outcome, ms
ARGV[5]  fingerprint of the outcome's request; written if the record is gone or was released
ARGV[6]  when the record is gone: 'restore', for a success alone, or 'report'
ARGV[7]  outcome header, one line
ARGV[8]  outcome body
ARGV[9]  how to notify waiters of the record: PUBLISH or SPUBLISH; '-' for not at all
ARGV[10] nonce of this send

Replies, each after the nonce
  ok                                               stored
  ok_late                                          stored, though the lease had expired or another attempt released it
  already                                          an earlier copy of this command stored it
  superseded, completed | failed, header, body     another attempt's outcome of the same content stands
  lost, in_progress | released, fence              another attempt owns the record, or released it
  lost, completed | failed, fence                  an outcome of another content stands
  restored                                         there was no record; the success was written back
  gone                                             there is no record; nothing was written
  error UNKNOWNRECORD                              the value has an unknown format and is left unchanged

The first write is a PEXPIREAT, which Redis allows without free memory; then it also allows the SET after it.
]]
local nonce = ARGV[10]
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

local kind = 'ok'
local mine = token == ARGV[1]
if not state then
  -- A restored failure could hide the effect of an attempt whose record is gone.
  if ARGV[6] == 'report' or ARGV[3] == 'f' then return { nonce, 'gone' } end
  local own = ARGV[2] == '0' and nowUs or tonumber(ARGV[2])
  kind, fence = 'restored', string.format('%.0f', math.max(fence or 0, own))
  attempt, takeovers, fingerprint = '1', '0', ARGV[5]
elseif state == 'p' then
  if not mine or (ARGV[2] ~= '0' and fence ~= ARGV[2]) then return { nonce, 'lost', 'in_progress', fence } end
  if now >= tonumber(leaseUntil) then kind = 'ok_late' end
elseif state == 'r' then
  if mine or ARGV[3] == 'f' then return { nonce, 'lost', 'released', fence } end
  kind, fence, fingerprint = 'ok_late', string.format('%.0f', math.max(fence, ARGV[2])), ARGV[5]
elseif mine then
  -- No change, but a write for the WAIT after a resend.
  redis.call('PEXPIREAT', KEYS[1], expiresAt)
  return { nonce, 'already' }
else
  local finished = state == 'c' and 'completed' or 'failed'
  if fingerprint ~= ARGV[5] then return { nonce, 'lost', finished, fence } end
  if #value == 256 then readAll() end
  local lineEnd = string.find(value, '\n', rest, true)
  local header, body = string.sub(value, rest, lineEnd - 1), string.sub(value, lineEnd + 1)
  return { nonce, 'superseded', finished, header, body }
end

local at = string.format('%.0f', now + ARGV[4])
local record = '1 ' .. ARGV[3] .. ' ' .. fence .. ' ' .. at .. ' ' .. attempt .. ' ' .. takeovers .. ' '
  .. ARGV[1] .. ' ' .. fingerprint .. '\n' .. ARGV[7] .. '\n' .. ARGV[8]
redis.call('PEXPIREAT', KEYS[1], at)
redis.call('SET', KEYS[1], record, 'PXAT', at)
-- The write is done: a failing PUBLISH must not fail it.
if ARGV[9] ~= '-' then redis.pcall(ARGV[9], KEYS[1], '') end
return { nonce, kind }
