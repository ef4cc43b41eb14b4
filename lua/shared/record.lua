-- The record's fields. Without a live record, state is nil; after an expired one, fence is that record's.
local state, fence, token, attempt, takeovers, fingerprint, note, rest, word, space
local since, leaseMs, leaseUntil, deadline, expiresAt, origin
local function readAll() value = redis.call('GET', KEYS[1]) end
-- Reads the first line, of which a note includes the space before it, and the second line's first word. What a large record
-- has left of its room for a note is filled with \127.
local function readHead()
  state, fence, token, attempt, takeovers, fingerprint, note, rest, word, space =
    string.match(value, '^2([pcfr])(%d+) (%S+) (%d+) (%d+) (%S+)( ?[!-~]*)\127*\n()(%S+)(%s)')
end
readHead()
-- An empty value is not an absent one, and an origin may be long.
if value == '' or #value == 512 and (not state or state == 'p') then
  readAll()
  if value then readHead() end
end
if state == 'p' then
  since, leaseMs, deadline, expiresAt, origin = string.match(value, '^([=%d]%d*) (%d+) (%-?%d+) (%d+) (%S+)\n$', rest)
  if since then
    since = math.floor((since == '=' and fence or since) / 1000)
    deadline, expiresAt = since + deadline, since + expiresAt
    leaseUntil = math.min(since + leaseMs, deadline)
  end
elseif space == '\n' then
  expiresAt = tonumber(word)
end
if value and not expiresAt then return redis.error_reply('UNKNOWNRECORD the key holds no record of format 2') end
if value and expiresAt <= now then state = nil end
