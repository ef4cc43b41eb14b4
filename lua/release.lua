--[[
Lets the operation run again at once: in progress -> released. Never deletes an outcome.

KEYS[1]  the record

ARGV[1]  nonce of this send
ARGV[2]  '2p<fence> <token> ', as the record begins while in progress; fence 0 to compare the token alone
ARGV[3]  how long the tombstone is kept, ms
ARGV[4]  how to notify waiters of the record: PUBLISH or SPUBLISH; empty or omitted for not at all
ARGV[5]  text in front of the record's note, if any

Replies, each after the nonce
  ok                   released
  already              an earlier copy of this command released it
  not_in_progress      this attempt's outcome is stored
  lost                 another attempt owns the record
  gone                 there is no record
  error UNKNOWNRECORD  the value has an unknown format and is left unchanged

Without free memory Redis allows the SET after a PEXPIREAT, or where the script says allow-oom.
]]
-- include: value
-- include: journal
-- include: record
-- include: owner
if not state then return nonce .. ' gone' end
if not mine then return nonce .. ' lost' end
if state ~= 'p' then return nonce .. (state == 'r' and ' already' or ' not_in_progress') end
if not held then return nonce .. ' lost' end

local at = string.format('%.0f', now + ARGV[3])
if ARGV[5] then note = ' ' .. string.sub(ARGV[5] .. string.sub(note, 2), 1, 240) end
local record = '2r' .. fence .. ' ' .. token .. ' ' .. attempt .. ' ' .. takeovers .. ' ' .. fingerprint .. note .. '\n' .. at .. '\n'
redis.call('PEXPIREAT', KEYS[1], at) -- without allow-oom
redis.call('SET', KEYS[1], record, 'PXAT', at)
journal('released', record) -- journal
-- The write is done: a failing PUBLISH must not fail it.
if ARGV[4] and ARGV[4] ~= '' then redis.pcall(ARGV[4], KEYS[1], '') end
return nonce .. ' ok'
