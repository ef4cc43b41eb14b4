// Made from lua/ by "npm run texts": change the files there.

export const LUA_TEXTS = {
  'abandoned': `local nonce = ARGV[2]
if redis.call('GETRANGE', KEYS[1], 0, 3) ~= '1 p ' then return { nonce, 'other' } end
local time = redis.call('TIME')
local nowUs = time[1] * 1000000 + time[2]
local now = math.floor(nowUs / 1000)
local value = redis.call('GETRANGE', KEYS[1], 0, 255)
local function readAll() value = redis.call('GET', KEYS[1]) end
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
  'begin': `local nonce = ARGV[9]
local time = redis.call('TIME')
local nowUs = time[1] * 1000000 + time[2]
local now = math.floor(nowUs / 1000)
local value = redis.call('GETRANGE', KEYS[1], 0, 255)
local function readAll() value = redis.call('GET', KEYS[1]) end
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
  'complete': `local nonce = ARGV[10]
local time = redis.call('TIME')
local nowUs = time[1] * 1000000 + time[2]
local now = math.floor(nowUs / 1000)
local value = redis.call('GETRANGE', KEYS[1], 0, 255)
local function readAll() value = redis.call('GET', KEYS[1]) end
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
if ARGV[9] ~= '-' then redis.pcall(ARGV[9], KEYS[1], '') end
return { nonce, kind }
`,
  'extend': `local nonce = ARGV[5]
local time = redis.call('TIME')
local nowUs = time[1] * 1000000 + time[2]
local now = math.floor(nowUs / 1000)
local value = redis.call('GETRANGE', KEYS[1], 0, 255)
local function readAll() value = redis.call('GET', KEYS[1]) end
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
  'inspect': `local nonce = ARGV[1]
local time = redis.call('TIME')
local nowUs = time[1] * 1000000 + time[2]
local now = math.floor(nowUs / 1000)
local value = redis.call('GETRANGE', KEYS[1], 0, 255)
local function readAll() value = redis.call('GET', KEYS[1]) end
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
  'release': `local nonce = ARGV[5]
local time = redis.call('TIME')
local nowUs = time[1] * 1000000 + time[2]
local now = math.floor(nowUs / 1000)
local value = redis.call('GETRANGE', KEYS[1], 0, 255)
local function readAll() value = redis.call('GET', KEYS[1]) end
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
if ARGV[4] ~= '-' then redis.pcall(ARGV[4], KEYS[1], '') end
return { nonce, 'ok' }
`,
};
