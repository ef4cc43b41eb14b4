--[[
Stores the outcome, once and for all: in progress -> completed or failed.

KEYS[1]  the record

ARGV[1]  nonce of this send
ARGV[2]  '2p<fence> <token> ', as the record begins while in progress; fence 0 to compare the token alone
ARGV[3]  'c' completed or 'f' failed
ARGV[4]  retention of the outcome, ms
ARGV[5]  '<fingerprint> <restore | report>': fingerprint of the outcome's request, written if the record is gone or was
         released; when the record is gone, restore it, for a success alone, or report
ARGV[6]  outcome header, one line
ARGV[7]  outcome body
ARGV[8]  how to notify waiters of the record: PUBLISH or SPUBLISH; empty or omitted for not at all
ARGV[9]  text in front of the note of a record in progress, if any

Replies, each after the nonce
  ok                                       stored
  ok_late                                  stored, though the lease had expired or another attempt released it
  already                                  an earlier copy of this command stored it
  superseded, completed | failed; then the record    another attempt's outcome of the same content stands
  lost, in_progress | released, fence      another attempt owns the record, or released it
  lost, completed | failed, fence          an outcome of another content stands
  restored                                 there was no record; the success was written back
  gone                                     there is no record; nothing was written
  error UNKNOWNRECORD                      the value has an unknown format and is left unchanged

Without free memory Redis allows the SET after a PEXPIREAT, or where the script says allow-oom.
]]
-- include: value
-- include: journal
local line, kind
if string.sub(value, 1, #ARGV[2]) == ARGV[2] then
  -- In progress and this attempt's, within its first second, as nearly always: no duration of four digits is over. The
  -- first line stays, but for its letter.
  local first, fence = string.match(value, '^((%d+) [^\n]*\n)= %d%d%d%d+ %d%d%d%d+ %d%d%d%d+ %S', 3)
  if first and nowUs - fence < 999000 then line, kind = first, ' ok' end
end

if not line then
  -- include: record
  -- include: owner
  local content, whenGone = string.match(ARGV[5], '^(%S+) (%S+)$')
  if not state then
    -- A restored failure could hide the effect of an attempt whose record is gone.
    if whenGone == 'report' or ARGV[3] == 'f' then return nonce .. ' gone' end
    local own = ownFence == '0' and nowUs or tonumber(ownFence)
    kind = ' restored'
    line = string.format('%.0f', math.max(fence or 0, own)) .. ' ' .. ownToken .. ' 1 0 ' .. content .. '\n'
  elseif state == 'p' then
    if not held then return nonce .. ' lost in_progress ' .. fence end
    kind = now < leaseUntil and ' ok' or ' ok_late'
    line = string.sub(value, 3, rest - 1)
  elseif state == 'r' then
    if mine or ARGV[3] == 'f' then return nonce .. ' lost released ' .. fence end
    kind = ' ok_late'
    line = string.format('%.0f', math.max(fence, ownFence)) .. ' ' .. ownToken .. ' ' .. attempt .. ' ' .. takeovers .. ' '
      .. content .. note .. '\n'
  elseif mine then
    -- No change, but a write for the WAIT after a resend.
    redis.call('PEXPIREAT', KEYS[1], expiresAt)
    return nonce .. ' already'
  else
    local finished = state == 'c' and 'completed' or 'failed'
    if fingerprint ~= content then return nonce .. ' lost ' .. finished .. ' ' .. fence end
    if #value == 512 then readAll() end
    journal('superseded', '2' .. state .. ownFence .. ' ' .. ownToken .. ' ' .. attempt .. ' ' .. takeovers .. ' ' .. content .. note .. '\n', ownToken, ARGV[4]) -- journal
    return { nonce .. ' superseded ' .. finished, value }
  end
end

if ARGV[9] and kind ~= ' restored' and string.sub(value, 2, 2) == 'p' then
  local head, note = string.match(line, '^(%S+ %S+ %S+ %S+ %S+) ?(%S*)\n')
  line = head .. ' ' .. string.sub(ARGV[9] .. note, 1, 240) .. '\n'
end
-- In two halves, which cost less than "%.0f".
local at = now + ARGV[4]
at = string.format('%d%06d', at / 1000000, at % 1000000)
local record = '2' .. ARGV[3] .. line .. at .. '\n' .. ARGV[6] .. '\n' .. ARGV[7]
redis.call('PEXPIREAT', KEYS[1], at) -- without allow-oom
redis.call('SET', KEYS[1], record, 'PXAT', at)
journal(kind == ' restored' and 'restored' or 'completed', record) -- journal
-- The write is done: a failing PUBLISH must not fail it.
if ARGV[8] and ARGV[8] ~= '' then redis.pcall(ARGV[8], KEYS[1], '') end
return nonce .. kind
