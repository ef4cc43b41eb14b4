--[[
Changes the record for an operator, if it is still as he saw it; it is judged and written in one step.

KEYS[1]  the record

ARGV[1]  nonce of this send
ARGV[2]  token of this change
ARGV[3]  '<p | c | f | r><fence>', what the operator saw: in progress, completed, failed or released
ARGV[4]  notBefore, ms of this server's clock; 0 = no limit
ARGV[5]  'yes' to change a record in progress though its lease is running; else 'no'
ARGV[6]  note in place of the record's; empty to leave that
ARGV[7]  how to notify waiters of the record: PUBLISH or SPUBLISH; empty for not at all
ARGV[8]  'r' release, 'c' settle as completed, 'f' settle as failed, 'k' keep
ARGV[9]  how long the tombstone or the outcome is kept, ms; with 'k' empty to leave it
ARGV[10] with 'r': '1' if the next attempt counts as a takeover, else '0'; else outcome header; with 'k' omitted to leave the outcome
ARGV[11] outcome body

Replies, each after the nonce
  ok, fence                                                    changed
  already                                                      an earlier copy of this command did it
  changed, absent | in_progress | completed | failed | released, fence   it is not what the operator saw
  not_applicable                                               a record in this state cannot be changed so
  running, lease left (ms)                                     the lease is running
  too_fresh, ms left                                           before notBefore
  error UNKNOWNRECORD                                          the value has an unknown format and is left unchanged

Without free memory Redis allows the SET after a PEXPIREAT, or where the script says allow-oom.
]]
-- include: value
-- include: journal
-- include: record
-- Also of a record that this command has made expire.
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
  -- A lease further ahead than its own length: the clock stepped back.
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
  outcome = ARGV[10] .. '\n' .. ARGV[11]
elseif change == 'k' then
  if #value == 512 then readAll() end
  outcome = string.sub(value, string.find(value, '\n', rest, true) + 1)
end
if change == 'k' then
  change = state
else
  -- An attempt that still runs loses the record: neither its token nor its fence fits any more.
  token, fence = ARGV[2], string.format('%.0f', fence + 1)
  if change == 'r' then takeovers = takeovers + ARGV[10] end
end
if ARGV[6] ~= '' then note = ' ' .. ARGV[6] end
local record = '2' .. change .. fence .. ' ' .. token .. ' ' .. attempt .. ' ' .. takeovers .. ' ' .. fingerprint .. note
  .. '\n' .. at .. '\n' .. outcome
redis.call('PEXPIREAT', KEYS[1], at) -- without allow-oom
redis.call('SET', KEYS[1], record, 'PXAT', at)
journal('settled', record, ARGV[8] == 'k' and ARGV[2], math.max(at - now, 1)) -- journal
-- The write is done: a failing PUBLISH must not fail it.
if ARGV[7] ~= '' then redis.pcall(ARGV[7], KEYS[1], '') end
return nonce .. ' ok ' .. fence
