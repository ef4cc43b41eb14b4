--[[
Extends the lease of a running attempt, never beyond its hard deadline.

KEYS[1]  the record

ARGV[1]  nonce of this send
ARGV[2]  '2p<fence> <token> ', as the record begins while in progress; fence 0 to compare the token alone
ARGV[3]  lease, ms
ARGV[4]  retention of the record in progress, ms

Replies, each after the nonce
  ok                   the lease runs from now
  revived              the same, though it had expired
  max_execution        the hard deadline has passed; nothing changed
  lost                 another attempt owns the record
  gone                 there is no record
  not_in_progress      this attempt's record is finished or released
  error UNKNOWNRECORD  the value has an unknown format and is left unchanged

Without free memory Redis allows the SET after a PEXPIREAT, or where the script says allow-oom.
]]
-- include: value
-- include: record
-- include: owner
-- include: renew
if not state then return nonce .. ' gone' end
if state ~= 'p' then return nonce .. (mine and ' not_in_progress' or ' lost') end
if not held then return nonce .. ' lost' end
if now >= deadline then return nonce .. ' max_execution' end

local at = now + ARGV[4]
redis.call('PEXPIREAT', KEYS[1], at) -- without allow-oom
redis.call('SET', KEYS[1], renewed(ARGV[3], ARGV[4]), 'PXAT', at)
return nonce .. (now < leaseUntil and ' ok' or ' revived')
