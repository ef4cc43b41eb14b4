// Made from lua/ by "npm run texts": change the files there.

export const LUA_TEXTS = {
  'abandoned': `local nonce = ARGV[1]
local time = redis.call('TIME')
local nowUs = time[1] * 1000000 + time[2]
local now = math.floor(nowUs / 1000)
local value = redis.call('GETRANGE', KEYS[1], '0', '511')
if string.sub(value, 1, 2) ~= '2p' then return nonce .. ' other' end
local state, fence, token, attempt, takeovers, fingerprint, note, rest, word, space
local since, leaseMs, leaseUntil, deadline, expiresAt, origin
local function readAll() value = redis.call('GET', KEYS[1]) end
local function readHead()
  state, fence, token, attempt, takeovers, fingerprint, note, rest, word, space =
    string.match(value, '^2([pcfr])(%d+) (%S+) (%d+) (%d+) (%S+)( ?[!-~]*)\\127*\\n()(%S+)(%s)')
end
readHead()
if value == '' or #value == 512 and (not state or state == 'p') then
  readAll()
  if value then readHead() end
end
if state == 'p' then
  since, leaseMs, deadline, expiresAt, origin = string.match(value, '^([=%d]%d*) (%d+) (%-?%d+) (%d+) (%S+)\\n$', rest)
  if since then
    since = math.floor((since == '=' and fence or since) / 1000)
    deadline, expiresAt = since + deadline, since + expiresAt
    leaseUntil = math.min(since + leaseMs, deadline)
  end
elseif space == '\\n' then
  expiresAt = tonumber(word)
end
if value and not expiresAt then return redis.error_reply('UNKNOWNRECORD the key holds no record of format 2') end
if value and expiresAt <= now then state = nil end
local function renewed(lease, retention)
  return string.sub(value, 1, rest - 1) .. time[1] .. string.sub('00000' .. time[2], -6) .. ' ' .. lease .. ' '
    .. string.format('%.0f', deadline - now) .. ' ' .. retention .. ' ' .. origin .. '\\n'
end
if not state or origin == '-' then return nonce .. ' other' end
local clamped = math.min(leaseUntil, now + leaseMs)
if clamped < leaseUntil then
  local at = expiresAt
  redis.call('PEXPIREAT', KEYS[1], at) -- without allow-oom
  redis.call('SET', KEYS[1], renewed(leaseMs, string.format('%.0f', expiresAt - now)), 'PXAT', at)
end
if now - clamped < tonumber(ARGV[2]) then return nonce .. ' other' end
return nonce .. ' abandoned ' .. fingerprint .. ' ' .. origin
`,
  'amend': `local nonce = ARGV[1]
local time = redis.call('TIME')
local nowUs = time[1] * 1000000 + time[2]
local now = math.floor(nowUs / 1000)
local value = redis.call('GETRANGE', KEYS[1], '0', '511')
local by = table.remove(ARGV) -- journal
local function journal(kind, record, token, ms) -- journal
  if by == '' then return end -- journal
  if token and redis.pcall('SET', KEYS[#KEYS] .. ':' .. token, '', 'PX', ms, 'NX') == false then return end -- journal
  local line = string.sub(record, 1, string.find(record, '\\n', 1, true) - 1) -- journal
  local entry = redis.pcall('XADD', KEYS[#KEYS], 'MAXLEN', '~', ':length', '*', 'kind', kind, -- journal
    'key', string.sub(KEYS[1], #KEYS[#KEYS] - 4), 'record', line, 'by', by) -- journal
  if entry.err then nonce = nonce .. '!' .. (string.match(entry.err, '%u%u%u+') or 'ERR') end -- journal
end -- journal
local state, fence, token, attempt, takeovers, fingerprint, note, rest, word, space
local since, leaseMs, leaseUntil, deadline, expiresAt, origin
local function readAll() value = redis.call('GET', KEYS[1]) end
local function readHead()
  state, fence, token, attempt, takeovers, fingerprint, note, rest, word, space =
    string.match(value, '^2([pcfr])(%d+) (%S+) (%d+) (%d+) (%S+)( ?[!-~]*)\\127*\\n()(%S+)(%s)')
end
readHead()
if value == '' or #value == 512 and (not state or state == 'p') then
  readAll()
  if value then readHead() end
end
if state == 'p' then
  since, leaseMs, deadline, expiresAt, origin = string.match(value, '^([=%d]%d*) (%d+) (%-?%d+) (%d+) (%S+)\\n$', rest)
  if since then
    since = math.floor((since == '=' and fence or since) / 1000)
    deadline, expiresAt = since + deadline, since + expiresAt
    leaseUntil = math.min(since + leaseMs, deadline)
  end
elseif space == '\\n' then
  expiresAt = tonumber(word)
end
if value and not expiresAt then return redis.error_reply('UNKNOWNRECORD the key holds no record of format 2') end
if value and expiresAt <= now then state = nil end
if token == ARGV[2] then return nonce .. ' already' end
if not state then return nonce .. ' changed absent 0' end
if state .. fence ~= ARGV[3] then
  local names = { p = 'in_progress', c = 'completed', f = 'failed', r = 'released' }
  return nonce .. ' changed ' .. names[state] .. ' ' .. fence
end
local change = ARGV[8]
local finished = state == 'c' or state == 'f'
if change ~= 'r' and finished ~= (change == 'k') then return nonce .. ' not_applicable' end
if state == 'p' and ARGV[5] ~= 'yes' then
  local clamped = math.min(leaseUntil, now + leaseMs)
  if clamped > now then return nonce .. ' running ' .. string.format('%.0f', clamped - now) end
end
local notBefore = tonumber(ARGV[4])
if notBefore ~= 0 and now < notBefore then
  return nonce .. ' too_fresh ' .. string.format('%.0f', notBefore - now)
end
local at = expiresAt
if ARGV[9] ~= '' then at = now + ARGV[9] end
at = string.format('%.0f', at)
local outcome = ''
if change ~= 'r' and ARGV[10] then
  outcome = ARGV[10] .. '\\n' .. ARGV[11]
elseif change == 'k' then
  if #value == 512 then readAll() end
  outcome = string.sub(value, string.find(value, '\\n', rest, true) + 1)
end
if change == 'k' then
  change = state
else
  token, fence = ARGV[2], string.format('%.0f', fence + 1)
  if change == 'r' then takeovers = takeovers + ARGV[10] end
end
if ARGV[6] ~= '' then note = ' ' .. ARGV[6] end
local record = '2' .. change .. fence .. ' ' .. token .. ' ' .. attempt .. ' ' .. takeovers .. ' ' .. fingerprint .. note
  .. '\\n' .. at .. '\\n' .. outcome
redis.call('PEXPIREAT', KEYS[1], at) -- without allow-oom
redis.call('SET', KEYS[1], record, 'PXAT', at)
journal('settled', record, ARGV[8] == 'k' and ARGV[2], math.max(at - now, 1)) -- journal
if ARGV[7] ~= '' then redis.pcall(ARGV[7], KEYS[1], '') end
return nonce .. ' ok ' .. fence
`,
  'begin': `local nonce = ARGV[1]
local time = redis.call('TIME')
local nowUs = time[1] * 1000000 + time[2]
local now = math.floor(nowUs / 1000)
local value = redis.call('GETRANGE', KEYS[1], '0', '511')
local by = table.remove(ARGV) -- journal
local function journal(kind, record, token, ms) -- journal
  if by == '' then return end -- journal
  if token and redis.pcall('SET', KEYS[#KEYS] .. ':' .. token, '', 'PX', ms, 'NX') == false then return end -- journal
  local line = string.sub(record, 1, string.find(record, '\\n', 1, true) - 1) -- journal
  local entry = redis.pcall('XADD', KEYS[#KEYS], 'MAXLEN', '~', ':length', '*', 'kind', kind, -- journal
    'key', string.sub(KEYS[1], #KEYS[#KEYS] - 4), 'record', line, 'by', by) -- journal
  if entry.err then nonce = nonce .. '!' .. (string.match(entry.err, '%u%u%u+') or 'ERR') end -- journal
end -- journal
if value == '' then
  if ARGV[6] ~= '0' and now > tonumber(ARGV[6]) then return nonce .. ' late ' .. string.format('%.0f', now) end
  local us = time[2]
  if #us < 6 then us = string.sub('00000' .. us, -6) end
  local record = '2p' .. time[1] .. us .. ' ' .. ARGV[2] .. ' 1 0 ' .. ARGV[3] .. (ARGV[9] and ' ' .. ARGV[9] or '')
    .. '\\n= ' .. ARGV[5] .. '\\n'
  if redis.call('SET', KEYS[1], record, 'PX', ARGV[4], 'NX') then
    journal('acquired', record) -- journal
    return nonce .. ' acquired ' .. time[1] .. us
  end
end
local finished, content, mark, expires = string.match(value, '^2([cf])%d+ %S+ %d+ %d+ (%S+)( ?[!-~]*)\\127*\\n(%d+)\\n')
if finished and now < tonumber(expires) then
  if content ~= ARGV[3] then return nonce .. ' mismatch' end
  if #value == 512 then
    local isLarge = ARGV[7] ~= '0' and redis.call('GETRANGE', KEYS[1], ARGV[7], ARGV[7]) ~= ''
    value = isLarge and { string.match(value, '^[^\\n]*\\n[^\\n]*\\n') } or redis.call('GET', KEYS[1])
  end
  return { nonce .. (finished == 'c' and ' completed' or ' failed') .. mark, expires - now, value }
end
local state, fence, token, attempt, takeovers, fingerprint, note, rest, word, space
local since, leaseMs, leaseUntil, deadline, expiresAt, origin
local function readAll() value = redis.call('GET', KEYS[1]) end
local function readHead()
  state, fence, token, attempt, takeovers, fingerprint, note, rest, word, space =
    string.match(value, '^2([pcfr])(%d+) (%S+) (%d+) (%d+) (%S+)( ?[!-~]*)\\127*\\n()(%S+)(%s)')
end
readHead()
if value == '' or #value == 512 and (not state or state == 'p') then
  readAll()
  if value then readHead() end
end
if state == 'p' then
  since, leaseMs, deadline, expiresAt, origin = string.match(value, '^([=%d]%d*) (%d+) (%-?%d+) (%d+) (%S+)\\n$', rest)
  if since then
    since = math.floor((since == '=' and fence or since) / 1000)
    deadline, expiresAt = since + deadline, since + expiresAt
    leaseUntil = math.min(since + leaseMs, deadline)
  end
elseif space == '\\n' then
  expiresAt = tonumber(word)
end
if value and not expiresAt then return redis.error_reply('UNKNOWNRECORD the key holds no record of format 2') end
if value and expiresAt <= now then state = nil end
local function renewed(lease, retention)
  return string.sub(value, 1, rest - 1) .. time[1] .. string.sub('00000' .. time[2], -6) .. ' ' .. lease .. ' '
    .. string.format('%.0f', deadline - now) .. ' ' .. retention .. ' ' .. origin .. '\\n'
end
local function counters() return ' ' .. string.format('%.0f', now) .. ' ' .. attempt .. ' ' .. takeovers end
local kind = ' acquired '
local mine = token == ARGV[2]
if not state then
  attempt, takeovers, note = '1', '0', ''
elseif state == 'r' then
  if mine then return nonce .. ' stale_begin' end
  attempt = attempt + 1
elseif fingerprint ~= ARGV[3] then
  return nonce .. ' mismatch'
elseif state ~= 'p' then
  return { nonce .. (state == 'c' and ' completed' or ' failed') .. note, expiresAt - now, value }
elseif mine then
  redis.call('SET', KEYS[1], renewed(string.match(ARGV[5], '^%d+'), ARGV[4]), 'PXAT', now + ARGV[4])
  return nonce .. ' owned ' .. fence .. counters()
else
  local clamped = math.min(leaseUntil, now + leaseMs)
  if clamped > now then
    if clamped < leaseUntil then
      redis.call('SET', KEYS[1], renewed(leaseMs, string.format('%.0f', expiresAt - now)), 'PXAT', expiresAt)
    end
    return nonce .. ' in_progress ' .. string.format('%.0f', clamped - now) .. note
  end
  if ARGV[8] == 'deny' then
    return nonce .. ' abandoned ' .. fence .. ' ' .. string.format('%.0f', now - clamped) .. ' ' .. attempt .. ' ' .. takeovers .. note
  end
  kind, attempt, takeovers = ' takeover ', attempt + 1, takeovers + 1
end
if ARGV[6] ~= '0' and now > tonumber(ARGV[6]) then return nonce .. ' late ' .. string.format('%.0f', now) end
local written = ARGV[9] and ' ' .. ARGV[9] or note
if ARGV[9] and state and string.sub(written, -1) == '<' then
  written = string.sub(written .. string.sub(fence, 1, -4) .. (state == 'r' and 'r' or 'i') .. string.match(note, '^ ?([^;]*)')
    .. (string.match(note, '<.*$') or ''), 1, 241)
end
fence = string.format('%.0f', math.max((fence or 0) + 1, nowUs))
local record = '2p' .. fence .. ' ' .. ARGV[2] .. ' ' .. attempt .. ' ' .. takeovers .. ' ' .. ARGV[3] .. written .. '\\n' .. string.format('%.0f', nowUs) .. ' ' .. ARGV[5] .. '\\n'
redis.call('SET', KEYS[1], record, 'PXAT', now + ARGV[4])
journal(string.sub(kind, 2, -2), record) -- journal
return nonce .. kind .. fence .. counters() .. (kind == ' takeover ' and note or '')
`,
  'complete-large': `local nonce = ARGV[1]
local time = redis.call('TIME')
local nowUs = time[1] * 1000000 + time[2]
local now = math.floor(nowUs / 1000)
local value = redis.call('GETRANGE', KEYS[1], '0', '511')
local by = table.remove(ARGV) -- journal
local function journal(kind, record, token, ms) -- journal
  if by == '' then return end -- journal
  if token and redis.pcall('SET', KEYS[#KEYS] .. ':' .. token, '', 'PX', ms, 'NX') == false then return end -- journal
  local line = string.sub(record, 1, string.find(record, '\\n', 1, true) - 1) -- journal
  local entry = redis.pcall('XADD', KEYS[#KEYS], 'MAXLEN', '~', ':length', '*', 'kind', kind, -- journal
    'key', string.sub(KEYS[1], #KEYS[#KEYS] - 4), 'record', line, 'by', by) -- journal
  if entry.err then nonce = nonce .. '!' .. (string.match(entry.err, '%u%u%u+') or 'ERR') end -- journal
end -- journal
local line, head, fence, note, since, lease, maxExecution, retention =
  string.match(value, '^2p(((%d+) %S+ %S+ %S+ %S+) ?(%S*)\\n)([=%d]%d*) (%d+) (%-?%d+) (%d+) %S')
since = line and math.floor((since == '=' and fence or since) / 1000)
if line and ARGV[4] then line = head .. ' ' .. string.rep('\\127', 240) .. '\\n' end
if not line or now >= since + retention
  or string.sub(redis.call('GETRANGE', KEYS[2], 0, #line + 15), 3) ~= line .. '0000000000000\\n' then
  redis.call('UNLINK', KEYS[2])
  return nonce .. ' other'
end
local at = string.format('%013.0f', now + ARGV[2])
if ARGV[4] then redis.call('SETRANGE', KEYS[2], #head + 3, string.sub(ARGV[4] .. note, 1, 240)) end
redis.call('SETRANGE', KEYS[2], #line + 2, at)
redis.call('PEXPIREAT', KEYS[2], at)
local renamed = redis.pcall('RENAME', KEYS[2], KEYS[1])
if renamed.err then
  redis.call('PEXPIREAT', KEYS[2], now)
  return renamed
end
journal('completed', redis.call('GETRANGE', KEYS[1], 0, #line + 1)) -- journal
if ARGV[3] and ARGV[3] ~= '' then redis.pcall(ARGV[3], KEYS[1], '') end
return nonce .. (now < since + math.min(lease, maxExecution) and ' ok' or ' ok_late')
`,
  'complete': `local nonce = ARGV[1]
local time = redis.call('TIME')
local nowUs = time[1] * 1000000 + time[2]
local now = math.floor(nowUs / 1000)
local value = redis.call('GETRANGE', KEYS[1], '0', '511')
local by = table.remove(ARGV) -- journal
local function journal(kind, record, token, ms) -- journal
  if by == '' then return end -- journal
  if token and redis.pcall('SET', KEYS[#KEYS] .. ':' .. token, '', 'PX', ms, 'NX') == false then return end -- journal
  local line = string.sub(record, 1, string.find(record, '\\n', 1, true) - 1) -- journal
  local entry = redis.pcall('XADD', KEYS[#KEYS], 'MAXLEN', '~', ':length', '*', 'kind', kind, -- journal
    'key', string.sub(KEYS[1], #KEYS[#KEYS] - 4), 'record', line, 'by', by) -- journal
  if entry.err then nonce = nonce .. '!' .. (string.match(entry.err, '%u%u%u+') or 'ERR') end -- journal
end -- journal
local line, kind
if string.sub(value, 1, #ARGV[2]) == ARGV[2] then
  local first, fence = string.match(value, '^((%d+) [^\\n]*\\n)= %d%d%d%d+ %d%d%d%d+ %d%d%d%d+ %S', 3)
  if first and nowUs - fence < 999000 then line, kind = first, ' ok' end
end
if not line then
local state, fence, token, attempt, takeovers, fingerprint, note, rest, word, space
local since, leaseMs, leaseUntil, deadline, expiresAt, origin
local function readAll() value = redis.call('GET', KEYS[1]) end
local function readHead()
  state, fence, token, attempt, takeovers, fingerprint, note, rest, word, space =
    string.match(value, '^2([pcfr])(%d+) (%S+) (%d+) (%d+) (%S+)( ?[!-~]*)\\127*\\n()(%S+)(%s)')
end
readHead()
if value == '' or #value == 512 and (not state or state == 'p') then
  readAll()
  if value then readHead() end
end
if state == 'p' then
  since, leaseMs, deadline, expiresAt, origin = string.match(value, '^([=%d]%d*) (%d+) (%-?%d+) (%d+) (%S+)\\n$', rest)
  if since then
    since = math.floor((since == '=' and fence or since) / 1000)
    deadline, expiresAt = since + deadline, since + expiresAt
    leaseUntil = math.min(since + leaseMs, deadline)
  end
elseif space == '\\n' then
  expiresAt = tonumber(word)
end
if value and not expiresAt then return redis.error_reply('UNKNOWNRECORD the key holds no record of format 2') end
if value and expiresAt <= now then state = nil end
local ownFence, ownToken = string.match(ARGV[2], '^2p(%d+) (%S+) $')
local mine = token == ownToken
local held = mine and (ownFence == '0' or fence == ownFence)
  local content, whenGone = string.match(ARGV[5], '^(%S+) (%S+)$')
  if not state then
    if whenGone == 'report' or ARGV[3] == 'f' then return nonce .. ' gone' end
    local own = ownFence == '0' and nowUs or tonumber(ownFence)
    kind = ' restored'
    line = string.format('%.0f', math.max(fence or 0, own)) .. ' ' .. ownToken .. ' 1 0 ' .. content .. '\\n'
  elseif state == 'p' then
    if not held then return nonce .. ' lost in_progress ' .. fence end
    kind = now < leaseUntil and ' ok' or ' ok_late'
    line = string.sub(value, 3, rest - 1)
  elseif state == 'r' then
    if mine or ARGV[3] == 'f' then return nonce .. ' lost released ' .. fence end
    kind = ' ok_late'
    line = string.format('%.0f', math.max(fence, ownFence)) .. ' ' .. ownToken .. ' ' .. attempt .. ' ' .. takeovers .. ' '
      .. content .. note .. '\\n'
  elseif mine then
    redis.call('PEXPIREAT', KEYS[1], expiresAt)
    return nonce .. ' already'
  else
    local finished = state == 'c' and 'completed' or 'failed'
    if fingerprint ~= content then return nonce .. ' lost ' .. finished .. ' ' .. fence end
    if #value == 512 then readAll() end
    journal('superseded', '2' .. state .. ownFence .. ' ' .. ownToken .. ' ' .. attempt .. ' ' .. takeovers .. ' ' .. content .. note .. '\\n', ownToken, ARGV[4]) -- journal
    return { nonce .. ' superseded ' .. finished, value }
  end
end
if ARGV[9] and kind ~= ' restored' and string.sub(value, 2, 2) == 'p' then
  local head, note = string.match(line, '^(%S+ %S+ %S+ %S+ %S+) ?(%S*)\\n')
  line = head .. ' ' .. string.sub(ARGV[9] .. note, 1, 240) .. '\\n'
end
local at = now + ARGV[4]
at = string.format('%d%06d', at / 1000000, at % 1000000)
local record = '2' .. ARGV[3] .. line .. at .. '\\n' .. ARGV[6] .. '\\n' .. ARGV[7]
redis.call('PEXPIREAT', KEYS[1], at) -- without allow-oom
redis.call('SET', KEYS[1], record, 'PXAT', at)
journal(kind == ' restored' and 'restored' or 'completed', record) -- journal
if ARGV[8] and ARGV[8] ~= '' then redis.pcall(ARGV[8], KEYS[1], '') end
return nonce .. kind
`,
  'extend': `local nonce = ARGV[1]
local time = redis.call('TIME')
local nowUs = time[1] * 1000000 + time[2]
local now = math.floor(nowUs / 1000)
local value = redis.call('GETRANGE', KEYS[1], '0', '511')
local state, fence, token, attempt, takeovers, fingerprint, note, rest, word, space
local since, leaseMs, leaseUntil, deadline, expiresAt, origin
local function readAll() value = redis.call('GET', KEYS[1]) end
local function readHead()
  state, fence, token, attempt, takeovers, fingerprint, note, rest, word, space =
    string.match(value, '^2([pcfr])(%d+) (%S+) (%d+) (%d+) (%S+)( ?[!-~]*)\\127*\\n()(%S+)(%s)')
end
readHead()
if value == '' or #value == 512 and (not state or state == 'p') then
  readAll()
  if value then readHead() end
end
if state == 'p' then
  since, leaseMs, deadline, expiresAt, origin = string.match(value, '^([=%d]%d*) (%d+) (%-?%d+) (%d+) (%S+)\\n$', rest)
  if since then
    since = math.floor((since == '=' and fence or since) / 1000)
    deadline, expiresAt = since + deadline, since + expiresAt
    leaseUntil = math.min(since + leaseMs, deadline)
  end
elseif space == '\\n' then
  expiresAt = tonumber(word)
end
if value and not expiresAt then return redis.error_reply('UNKNOWNRECORD the key holds no record of format 2') end
if value and expiresAt <= now then state = nil end
local ownFence, ownToken = string.match(ARGV[2], '^2p(%d+) (%S+) $')
local mine = token == ownToken
local held = mine and (ownFence == '0' or fence == ownFence)
local function renewed(lease, retention)
  return string.sub(value, 1, rest - 1) .. time[1] .. string.sub('00000' .. time[2], -6) .. ' ' .. lease .. ' '
    .. string.format('%.0f', deadline - now) .. ' ' .. retention .. ' ' .. origin .. '\\n'
end
if not state then return nonce .. ' gone' end
if state ~= 'p' then return nonce .. (mine and ' not_in_progress' or ' lost') end
if not held then return nonce .. ' lost' end
if now >= deadline then return nonce .. ' max_execution' end
local at = now + ARGV[4]
redis.call('PEXPIREAT', KEYS[1], at) -- without allow-oom
redis.call('SET', KEYS[1], renewed(ARGV[3], ARGV[4]), 'PXAT', at)
return nonce .. (now < leaseUntil and ' ok' or ' revived')
`,
  'inspect': `local nonce = ARGV[1]
local time = redis.call('TIME')
local nowUs = time[1] * 1000000 + time[2]
local now = math.floor(nowUs / 1000)
local value = redis.call('GETRANGE', KEYS[1], '0', '511')
local state, fence, token, attempt, takeovers, fingerprint, note, rest, word, space
local since, leaseMs, leaseUntil, deadline, expiresAt, origin
local function readAll() value = redis.call('GET', KEYS[1]) end
local function readHead()
  state, fence, token, attempt, takeovers, fingerprint, note, rest, word, space =
    string.match(value, '^2([pcfr])(%d+) (%S+) (%d+) (%d+) (%S+)( ?[!-~]*)\\127*\\n()(%S+)(%s)')
end
readHead()
if value == '' or #value == 512 and (not state or state == 'p') then
  readAll()
  if value then readHead() end
end
if state == 'p' then
  since, leaseMs, deadline, expiresAt, origin = string.match(value, '^([=%d]%d*) (%d+) (%-?%d+) (%d+) (%S+)\\n$', rest)
  if since then
    since = math.floor((since == '=' and fence or since) / 1000)
    deadline, expiresAt = since + deadline, since + expiresAt
    leaseUntil = math.min(since + leaseMs, deadline)
  end
elseif space == '\\n' then
  expiresAt = tonumber(word)
end
if value and not expiresAt then return redis.error_reply('UNKNOWNRECORD the key holds no record of format 2') end
if value and expiresAt <= now then state = nil end
if not state then return nonce .. ' absent' end
local fields = ' ' .. fence .. ' ' .. attempt .. ' ' .. takeovers .. ' ' .. fingerprint .. ' '
  .. string.format('%.0f %.0f', now - math.floor(fence / 1000), expiresAt - now)
if state == 'p' then
  local leaseLeft = math.min(leaseUntil, now + leaseMs) - now
  return nonce .. ' in_progress' .. fields .. ' ' .. string.format('%.0f', leaseLeft) .. ' ' .. origin .. note
end
if state == 'r' then return nonce .. ' released' .. fields .. note end
if ARGV[2] then return nonce .. (state == 'c' and ' completed' or ' failed') .. fields .. note end
if #value == 512 then readAll() end
return { nonce .. (state == 'c' and ' completed' or ' failed') .. fields .. note, value }
`,
  'release': `local nonce = ARGV[1]
local time = redis.call('TIME')
local nowUs = time[1] * 1000000 + time[2]
local now = math.floor(nowUs / 1000)
local value = redis.call('GETRANGE', KEYS[1], '0', '511')
local by = table.remove(ARGV) -- journal
local function journal(kind, record, token, ms) -- journal
  if by == '' then return end -- journal
  if token and redis.pcall('SET', KEYS[#KEYS] .. ':' .. token, '', 'PX', ms, 'NX') == false then return end -- journal
  local line = string.sub(record, 1, string.find(record, '\\n', 1, true) - 1) -- journal
  local entry = redis.pcall('XADD', KEYS[#KEYS], 'MAXLEN', '~', ':length', '*', 'kind', kind, -- journal
    'key', string.sub(KEYS[1], #KEYS[#KEYS] - 4), 'record', line, 'by', by) -- journal
  if entry.err then nonce = nonce .. '!' .. (string.match(entry.err, '%u%u%u+') or 'ERR') end -- journal
end -- journal
local state, fence, token, attempt, takeovers, fingerprint, note, rest, word, space
local since, leaseMs, leaseUntil, deadline, expiresAt, origin
local function readAll() value = redis.call('GET', KEYS[1]) end
local function readHead()
  state, fence, token, attempt, takeovers, fingerprint, note, rest, word, space =
    string.match(value, '^2([pcfr])(%d+) (%S+) (%d+) (%d+) (%S+)( ?[!-~]*)\\127*\\n()(%S+)(%s)')
end
readHead()
if value == '' or #value == 512 and (not state or state == 'p') then
  readAll()
  if value then readHead() end
end
if state == 'p' then
  since, leaseMs, deadline, expiresAt, origin = string.match(value, '^([=%d]%d*) (%d+) (%-?%d+) (%d+) (%S+)\\n$', rest)
  if since then
    since = math.floor((since == '=' and fence or since) / 1000)
    deadline, expiresAt = since + deadline, since + expiresAt
    leaseUntil = math.min(since + leaseMs, deadline)
  end
elseif space == '\\n' then
  expiresAt = tonumber(word)
end
if value and not expiresAt then return redis.error_reply('UNKNOWNRECORD the key holds no record of format 2') end
if value and expiresAt <= now then state = nil end
local ownFence, ownToken = string.match(ARGV[2], '^2p(%d+) (%S+) $')
local mine = token == ownToken
local held = mine and (ownFence == '0' or fence == ownFence)
if not state then return nonce .. ' gone' end
if not mine then return nonce .. ' lost' end
if state ~= 'p' then return nonce .. (state == 'r' and ' already' or ' not_in_progress') end
if not held then return nonce .. ' lost' end
local at = string.format('%.0f', now + ARGV[3])
if ARGV[5] then note = ' ' .. string.sub(ARGV[5] .. string.sub(note, 2), 1, 240) end
local record = '2r' .. fence .. ' ' .. token .. ' ' .. attempt .. ' ' .. takeovers .. ' ' .. fingerprint .. note .. '\\n' .. at .. '\\n'
redis.call('PEXPIREAT', KEYS[1], at) -- without allow-oom
redis.call('SET', KEYS[1], record, 'PXAT', at)
journal('released', record) -- journal
if ARGV[4] and ARGV[4] ~= '' then redis.pcall(ARGV[4], KEYS[1], '') end
return nonce .. ' ok'
`,
};
