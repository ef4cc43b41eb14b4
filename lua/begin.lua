--[[
Acquires the right to run the operation: absent, released or abandoned -> in progress.

KEYS[1]  the record

ARGV[1]  nonce of this send
ARGV[2]  owner token
ARGV[3]  fingerprint
ARGV[4]  retention of the record in progress, ms
ARGV[5]  '<lease> <max execution> <retention> <origin>', durations in ms; origin '-' for none
ARGV[6]  notAfter, ms of this server's clock; 0 = no limit
ARGV[7]  bytes above which a record is large, of which the reply has the beginning alone: GET reads it; '0' for none
ARGV[8]  if another attempt's lease has expired: 'takeover', the default, or 'deny'
ARGV[9]  note, if any; after one that ends in "<" is written which attempt it replaces

Replies, each after the nonce; a note after the fields, if the record has one
  acquired, fence                               there was no record; at the fence's instant, first attempt, no takeovers
  acquired, fence, now (ms), attempt, takeovers
  takeover, fence, now (ms), attempt, takeovers; the earlier attempt's note
  owned, fence, now (ms), attempt, takeovers    an earlier copy of this command acquired it; lease renewed
  in_progress, ms left of another attempt's lease; note
  abandoned, fence, ms since that lease expired, attempt, takeovers; note
  completed | failed; note; then retention left (ms) and the record
  completed | failed; note; then retention left (ms) and a list of a large record's first two lines
  mismatch                                      the record has another fingerprint
  stale_begin                                   a delayed copy of an attempt that was released
  late, now (ms)                                past notAfter
  error UNKNOWNRECORD                           the value has an unknown format and is left unchanged

The first write is a SET: without free memory Redis rejects it, and with it the whole step.

A record is two lines of text, then the outcome:
  2p|c|f|r<fence> <token> <attempt> <takeovers> <fingerprint>[ <note><\127 ...>]\n
  <since> <lease> <max execution> <retention> <origin>\n                  in progress
  <expires at>\n<outcome header>\n<outcome body>                         completed or failed
  <expires at>\n                                                         released
<since> is an instant of this server's clock in us, from which the durations in ms count; "=" is the fence. <expires at> is
in ms. The leading 2 is the version of the format.
]]
-- include: value
-- include: journal
if value == '' then
  -- Absent, as for nearly every first request: the server's own words are fence and instant.
  if ARGV[6] ~= '0' and now > tonumber(ARGV[6]) then return nonce .. ' late ' .. string.format('%.0f', now) end
  local us = time[2]
  if #us < 6 then us = string.sub('00000' .. us, -6) end
  local record = '2p' .. time[1] .. us .. ' ' .. ARGV[2] .. ' 1 0 ' .. ARGV[3] .. (ARGV[9] and ' ' .. ARGV[9] or '')
    .. '\n= ' .. ARGV[5] .. '\n'
  -- An empty value is not an absent one.
  if redis.call('SET', KEYS[1], record, 'PX', ARGV[4], 'NX') then
    journal('acquired', record) -- journal
    return nonce .. ' acquired ' .. time[1] .. us
  end
end

-- Finished, as for nearly every retry: the head decides, and only a replay reads on.
local finished, content, mark, expires = string.match(value, '^2([cf])%d+ %S+ %d+ %d+ (%S+)( ?[!-~]*)\127*\n(%d+)\n')
if finished and now < tonumber(expires) then
  if content ~= ARGV[3] then return nonce .. ' mismatch' end
  if #value == 512 then
    local isLarge = ARGV[7] ~= '0' and redis.call('GETRANGE', KEYS[1], ARGV[7], ARGV[7]) ~= ''
    value = isLarge and { string.match(value, '^[^\n]*\n[^\n]*\n') } or redis.call('GET', KEYS[1])
  end
  return { nonce .. (finished == 'c' and ' completed' or ' failed') .. mark, expires - now, value }
end

-- include: record
-- include: renew
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
  -- A head beyond the first bytes.
  return { nonce .. (state == 'c' and ' completed' or ' failed') .. note, expiresAt - now, value }
elseif mine then
  redis.call('SET', KEYS[1], renewed(string.match(ARGV[5], '^%d+'), ARGV[4]), 'PXAT', now + ARGV[4])
  return nonce .. ' owned ' .. fence .. counters()
else
  -- A lease further ahead than its own length: the clock stepped back.
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
local record = '2p' .. fence .. ' ' .. ARGV[2] .. ' ' .. attempt .. ' ' .. takeovers .. ' ' .. ARGV[3] .. written .. '\n' .. string.format('%.0f', nowUs) .. ' ' .. ARGV[5] .. '\n'
redis.call('SET', KEYS[1], record, 'PXAT', now + ARGV[4])
journal(string.sub(kind, 2, -2), record) -- journal
return nonce .. kind .. fence .. counters() .. (kind == ' takeover ' and note or '')
