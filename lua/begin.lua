--[[
Acquires the right to run the operation: absent, released or abandoned -> in progress.

KEYS[1]  the record

ARGV[1]  owner token
ARGV[2]  fingerprint
ARGV[3]  lease, ms
ARGV[4]  max execution, ms
ARGV[5]  retention of the record in progress, ms
ARGV[6]  notAfter, ms of this server's clock; 0 = no limit
ARGV[7]  if another attempt's lease has expired: 'takeover' or 'deny'
ARGV[8]  origin, or '-'
ARGV[9]  nonce of this send

Replies, each after the nonce
  acquired, fence, now (ms), attempt, takeovers
  takeover, fence, now (ms), attempt, takeovers
  owned, fence, now (ms), attempt, takeovers    an earlier copy of this command acquired it; lease renewed
  in_progress, ms left of another attempt's lease
  abandoned, fence, ms since that lease expired, attempt, takeovers
  completed | failed, retention left (ms), outcome header, outcome body
  mismatch                                      the record has another fingerprint
  stale_begin                                   a delayed copy of an attempt that was released
  late, now (ms)                                past notAfter
  error UNKNOWNRECORD                           the value has an unknown format and is left unchanged

The first write is a SET: without free memory Redis rejects it, and with it the whole step.

A record is a line of text, then the outcome; instants in ms of this server's clock:
  1 p <fence> <lease until> <lease ms> <deadline> <expires at> <attempt> <takeovers> <token> <fingerprint> <origin>\n
  1 c|f <fence> <expires at> <attempt> <takeovers> <token> <fingerprint>\n<outcome header>\n<outcome body>
  1 r <fence> <expires at> <attempt> <takeovers> <token> <fingerprint>\n
in progress, completed or failed, released. The leading 1 is the version of the format.
]]
local nonce = ARGV[9]
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

local function write()
  local at = string.format('%.0f', expiresAt)
  local line = '1 p ' .. fence .. ' ' .. string.format('%.0f', leaseUntil) .. ' ' .. leaseMs .. ' '
    .. string.format('%.0f', deadline) .. ' ' .. at .. ' ' .. attempt .. ' ' .. takeovers .. ' '
    .. token .. ' ' .. fingerprint .. ' ' .. origin .. '\n'
  redis.call('SET', KEYS[1], line, 'PXAT', at)
end

local kind = 'acquired'
local mine = token == ARGV[1]
if not state then
  attempt, takeovers = '1', '0'
elseif state == 'r' then
  if mine then return { nonce, 'stale_begin' } end
  attempt = attempt + 1
elseif fingerprint ~= ARGV[2] then
  return { nonce, 'mismatch' }
elseif state ~= 'p' then
  if #value == 256 then readAll() end
  local lineEnd = string.find(value, '\n', rest, true)
  local header, body = string.sub(value, rest, lineEnd - 1), string.sub(value, lineEnd + 1)
  return { nonce, state == 'c' and 'completed' or 'failed', expiresAt - now, header, body }
elseif mine then
  leaseUntil, leaseMs, expiresAt = math.min(now + ARGV[3], deadline), ARGV[3], now + ARGV[5]
  write()
  return { nonce, 'owned', fence, now, attempt, takeovers }
else
  -- A lease further ahead than its own length: the clock stepped back.
  local clamped = math.min(leaseUntil, now + leaseMs)
  if clamped > now then
    if clamped < tonumber(leaseUntil) then
      leaseUntil = clamped
      write()
    end
    return { nonce, 'in_progress', clamped - now }
  end
  if ARGV[7] == 'deny' then return { nonce, 'abandoned', fence, now - clamped, attempt, takeovers } end
  kind, attempt, takeovers = 'takeover', attempt + 1, takeovers + 1
end

if ARGV[6] ~= '0' and now > tonumber(ARGV[6]) then return { nonce, 'late', now } end
fence = string.format('%.0f', math.max((fence or 0) + 1, nowUs))
token, fingerprint, leaseMs, origin = ARGV[1], ARGV[2], ARGV[3], ARGV[8]
deadline, expiresAt = now + ARGV[4], now + ARGV[5]
leaseUntil = math.min(now + leaseMs, deadline)
write()
return { nonce, kind, fence, now, attempt, takeovers }
