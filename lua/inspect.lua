--[[
Reads the record without changing it.

KEYS[1]  the record

ARGV[1]  nonce of this send

Replies, each after the nonce
  absent
  in_progress, fence, attempt, takeovers, fingerprint, retention left (ms), lease left (ms; negative: expired), origin or '-'
  completed | failed, fence, attempt, takeovers, fingerprint, retention left (ms), outcome header, outcome body
  released, fence, attempt, takeovers, fingerprint, retention left (ms)
  error UNKNOWNRECORD  the value has an unknown format
]]
local nonce = ARGV[1]
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

if not state then return { nonce, 'absent' } end
local left = expiresAt - now
if state == 'p' then
  local leaseLeft = math.min(leaseUntil, now + leaseMs) - now
  return { nonce, 'in_progress', fence, attempt, takeovers, fingerprint, left, leaseLeft, origin }
end
if state == 'r' then return { nonce, 'released', fence, attempt, takeovers, fingerprint, left } end
if #value == 256 then readAll() end
local lineEnd = string.find(value, '\n', rest, true)
local header, body = string.sub(value, rest, lineEnd - 1), string.sub(value, lineEnd + 1)
local name = state == 'c' and 'completed' or 'failed'
return { nonce, name, fence, attempt, takeovers, fingerprint, left, header, body }
