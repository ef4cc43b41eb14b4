--[[
Stores a large outcome, once and for all, as lua/complete.lua does: in progress -> completed or failed. The client has
SET the finished record under another key, with zeros for the instant of its expiry and, if it is to have a note, 240
characters of \127 for that. Renaming it moves no byte of it.

KEYS[1]  the record
KEYS[2]  the finished record

ARGV[1]  nonce of this send
ARGV[2]  retention of the outcome, ms
ARGV[3]  how to notify waiters of the record: PUBLISH or SPUBLISH; empty or omitted for not at all
ARGV[4]  text in front of the record's note, if any: else that is empty

Replies, each after the nonce
  ok       stored
  ok_late  stored, though the lease had expired
  other    not stored, and the finished record is deleted: its first line is not that of a record in progress, or it is
           missing; lua/complete.lua decides
]]
-- include: value
-- include: journal
local line, head, fence, note, since, lease, maxExecution, retention =
  string.match(value, '^2p(((%d+) %S+ %S+ %S+ %S+) ?(%S*)\n)([=%d]%d*) (%d+) (%-?%d+) (%d+) %S')
since = line and math.floor((since == '=' and fence or since) / 1000)
if line and ARGV[4] then line = head .. ' ' .. string.rep('\127', 240) .. '\n' end
-- Owner, fence, counters and fingerprint as one text.
if not line or now >= since + retention
  or string.sub(redis.call('GETRANGE', KEYS[2], 0, #line + 15), 3) ~= line .. '0000000000000\n' then
  redis.call('UNLINK', KEYS[2])
  return nonce .. ' other'
end

local at = string.format('%013.0f', now + ARGV[2])
-- Without free memory Redis rejects the first of these, and with it the whole step.
if ARGV[4] then redis.call('SETRANGE', KEYS[2], #head + 3, string.sub(ARGV[4] .. note, 1, 240)) end
redis.call('SETRANGE', KEYS[2], #line + 2, at)
redis.call('PEXPIREAT', KEYS[2], at)
local renamed = redis.pcall('RENAME', KEYS[2], KEYS[1])
if renamed.err then
  redis.call('PEXPIREAT', KEYS[2], now)
  return renamed
end
journal('completed', redis.call('GETRANGE', KEYS[1], 0, #line + 1)) -- journal
-- The write is done: a failing PUBLISH must not fail it.
if ARGV[3] and ARGV[3] ~= '' then redis.pcall(ARGV[3], KEYS[1], '') end
return nonce .. (now < since + math.min(lease, maxExecution) and ' ok' or ' ok_late')
