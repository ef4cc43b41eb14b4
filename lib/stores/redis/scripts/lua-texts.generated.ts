// Made from lua/ by "npm run texts": change the files there.

export const LUA_TEXTS = {
  'abandoned': `--[[
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
if value == '' or #value == 256 and not string.find(value, '^1 [cfr] [^\\n]*\\n') then readAll() end
local state, fence, leaseUntil, leaseMs, deadline, expiresAt, attempt, takeovers, token, fingerprint, origin, rest
if value then
  state, fence, leaseUntil, leaseMs, deadline, expiresAt, attempt, takeovers, token, fingerprint, origin =
    string.match(value, '^1 (p) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (%S+) (%S+)\\n$')
  if not state then
    state, fence, expiresAt, attempt, takeovers, token, fingerprint, rest =
      string.match(value, '^1 ([cfr]) (%d+) (%d+) (%d+) (%d+) (%S+) (%S+)\\n()')
  end
  if not state then return redis.error_reply('UNKNOWNRECORD the key holds no record of format 1') end
  if tonumber(expiresAt) <= now then state = nil end
end

if not state or origin == '-' then return { nonce, 'other' } end
-- A lease further ahead than its own length: the clock stepped back.
local clamped = math.min(leaseUntil, now + leaseMs)
if clamped < tonumber(leaseUntil) then
  local line = '1 p ' .. fence .. ' ' .. string.format('%.0f', clamped) .. ' ' .. leaseMs .. ' ' .. deadline .. ' ' .. expiresAt
    .. ' ' .. attempt .. ' ' .. takeovers .. ' ' .. token .. ' ' .. fingerprint .. ' ' .. origin .. '\\n'
  redis.call('PEXPIREAT', KEYS[1], expiresAt)
  redis.call('SET', KEYS[1], line, 'PXAT', expiresAt)
end
if now - clamped < tonumber(ARGV[1]) then return { nonce, 'other' } end
return { nonce, 'abandoned', fingerprint, origin }
`,
  'begin': `--[[
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
  1 p <fence> <lease until> <lease ms> <deadline> <expires at> <attempt> <takeovers> <token> <fingerprint> <origin>\\n
  1 c|f <fence> <expires at> <attempt> <takeovers> <token> <fingerprint>\\n<outcome header>\\n<outcome body>
  1 r <fence> <expires at> <attempt> <takeovers> <token> <fingerprint>\\n
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
if value == '' or #value == 256 and not string.find(value, '^1 [cfr] [^\\n]*\\n') then readAll() end
local state, fence, leaseUntil, leaseMs, deadline, expiresAt, attempt, takeovers, token, fingerprint, origin, rest
if value then
  state, fence, leaseUntil, leaseMs, deadline, expiresAt, attempt, takeovers, token, fingerprint, origin =
    string.match(value, '^1 (p) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (%S+) (%S+)\\n$')
  if not state then
    state, fence, expiresAt, attempt, takeovers, token, fingerprint, rest =
      string.match(value, '^1 ([cfr]) (%d+) (%d+) (%d+) (%d+) (%S+) (%S+)\\n()')
  end
  if not state then return redis.error_reply('UNKNOWNRECORD the key holds no record of format 1') end
  if tonumber(expiresAt) <= now then state = nil end
end

local function write()
  local at = string.format('%.0f', expiresAt)
  local line = '1 p ' .. fence .. ' ' .. string.format('%.0f', leaseUntil) .. ' ' .. leaseMs .. ' '
    .. string.format('%.0f', deadline) .. ' ' .. at .. ' ' .. attempt .. ' ' .. takeovers .. ' '
    .. token .. ' ' .. fingerprint .. ' ' .. origin .. '\\n'
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
  local lineEnd = string.find(value, '\\n', rest, true)
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
`,
  'complete': `--[[
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
if value == '' or #value == 256 and not string.find(value, '^1 [cfr] [^\\n]*\\n') then readAll() end
local state, fence, leaseUntil, leaseMs, deadline, expiresAt, attempt, takeovers, token, fingerprint, origin, rest
if value then
  state, fence, leaseUntil, leaseMs, deadline, expiresAt, attempt, takeovers, token, fingerprint, origin =
    string.match(value, '^1 (p) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (%S+) (%S+)\\n$')
  if not state then
    state, fence, expiresAt, attempt, takeovers, token, fingerprint, rest =
      string.match(value, '^1 ([cfr]) (%d+) (%d+) (%d+) (%d+) (%S+) (%S+)\\n()')
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
  local lineEnd = string.find(value, '\\n', rest, true)
  local header, body = string.sub(value, rest, lineEnd - 1), string.sub(value, lineEnd + 1)
  return { nonce, 'superseded', finished, header, body }
end

local at = string.format('%.0f', now + ARGV[4])
local record = '1 ' .. ARGV[3] .. ' ' .. fence .. ' ' .. at .. ' ' .. attempt .. ' ' .. takeovers .. ' '
  .. ARGV[1] .. ' ' .. fingerprint .. '\\n' .. ARGV[7] .. '\\n' .. ARGV[8]
redis.call('PEXPIREAT', KEYS[1], at)
redis.call('SET', KEYS[1], record, 'PXAT', at)
-- The write is done: a failing PUBLISH must not fail it.
if ARGV[9] ~= '-' then redis.pcall(ARGV[9], KEYS[1], '') end
return { nonce, kind }
`,
  'extend': `--[[
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
if value == '' or #value == 256 and not string.find(value, '^1 [cfr] [^\\n]*\\n') then readAll() end
local state, fence, leaseUntil, leaseMs, deadline, expiresAt, attempt, takeovers, token, fingerprint, origin, rest
if value then
  state, fence, leaseUntil, leaseMs, deadline, expiresAt, attempt, takeovers, token, fingerprint, origin =
    string.match(value, '^1 (p) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (%S+) (%S+)\\n$')
  if not state then
    state, fence, expiresAt, attempt, takeovers, token, fingerprint, rest =
      string.match(value, '^1 ([cfr]) (%d+) (%d+) (%d+) (%d+) (%S+) (%S+)\\n()')
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
  .. attempt .. ' ' .. takeovers .. ' ' .. token .. ' ' .. fingerprint .. ' ' .. origin .. '\\n'
redis.call('PEXPIREAT', KEYS[1], at)
redis.call('SET', KEYS[1], line, 'PXAT', at)
return { nonce, now >= tonumber(leaseUntil) and 'revived' or 'ok' }
`,
  'inspect': `--[[
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
if value == '' or #value == 256 and not string.find(value, '^1 [cfr] [^\\n]*\\n') then readAll() end
local state, fence, leaseUntil, leaseMs, deadline, expiresAt, attempt, takeovers, token, fingerprint, origin, rest
if value then
  state, fence, leaseUntil, leaseMs, deadline, expiresAt, attempt, takeovers, token, fingerprint, origin =
    string.match(value, '^1 (p) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (%S+) (%S+)\\n$')
  if not state then
    state, fence, expiresAt, attempt, takeovers, token, fingerprint, rest =
      string.match(value, '^1 ([cfr]) (%d+) (%d+) (%d+) (%d+) (%S+) (%S+)\\n()')
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
local lineEnd = string.find(value, '\\n', rest, true)
local header, body = string.sub(value, rest, lineEnd - 1), string.sub(value, lineEnd + 1)
local name = state == 'c' and 'completed' or 'failed'
return { nonce, name, fence, attempt, takeovers, fingerprint, left, header, body }
`,
  'release': `--[[
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
if value == '' or #value == 256 and not string.find(value, '^1 [cfr] [^\\n]*\\n') then readAll() end
local state, fence, leaseUntil, leaseMs, deadline, expiresAt, attempt, takeovers, token, fingerprint, origin, rest
if value then
  state, fence, leaseUntil, leaseMs, deadline, expiresAt, attempt, takeovers, token, fingerprint, origin =
    string.match(value, '^1 (p) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (%S+) (%S+)\\n$')
  if not state then
    state, fence, expiresAt, attempt, takeovers, token, fingerprint, rest =
      string.match(value, '^1 ([cfr]) (%d+) (%d+) (%d+) (%d+) (%S+) (%S+)\\n()')
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
  .. token .. ' ' .. fingerprint .. '\\n'
redis.call('PEXPIREAT', KEYS[1], at)
redis.call('SET', KEYS[1], line, 'PXAT', at)
-- The write is done: a failing PUBLISH must not fail it.
if ARGV[4] ~= '-' then redis.pcall(ARGV[4], KEYS[1], '') end
return { nonce, 'ok' }
`,
};
