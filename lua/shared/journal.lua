-- The journal: its stream is the last key, and '<service> <version>' the last argument; empty for the record of a probe, which
-- has no entries. The store writes its maximum length in the place of ':length'.
local by = table.remove(ARGV) -- journal
-- Adds the entry of a change that is written: it must not fail that. A reply without the entry has its reason, after "!", at
-- the nonce. Where the record does not tell a copy of the command, a key with the command's token does.
local function journal(kind, record, token, ms) -- journal
  if by == '' then return end -- journal
  if token and redis.pcall('SET', KEYS[#KEYS] .. ':' .. token, '', 'PX', ms, 'NX') == false then return end -- journal
  local line = string.sub(record, 1, string.find(record, '\n', 1, true) - 1) -- journal
  local entry = redis.pcall('XADD', KEYS[#KEYS], 'MAXLEN', '~', ':length', '*', 'kind', kind, -- journal
    'key', string.sub(KEYS[1], #KEYS[#KEYS] - 4), 'record', line, 'by', by) -- journal
  if entry.err then nonce = nonce .. '!' .. (string.match(entry.err, '%u%u%u+') or 'ERR') end -- journal
end -- journal
