--[[
Reads the record without changing it.

KEYS[1]  the record

ARGV[1]  nonce of this send
ARGV[2]  'head' to leave out the record of one that is finished

Replies, each after the nonce; a note after the fields, if the record has one
  absent
  in_progress, fence, attempt, takeovers, fingerprint, age (ms), retention left (ms), lease left (ms; negative: expired), origin or '-'
  completed | failed, fence, attempt, takeovers, fingerprint, age, retention left; then the record
  released, fence, attempt, takeovers, fingerprint, age, retention left
  error UNKNOWNRECORD  the value has an unknown format
]]
-- include: value
-- include: record
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
