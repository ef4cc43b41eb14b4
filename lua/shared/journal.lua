-- The journal: the last key is its stream, and after the other arguments comes '<maximum length> <service> <version>'; empty for
-- the record of a probe, which has no entries.
local writer = table.remove(ARGV) -- journal
-- Adds the entry of a change that is written: it must not fail that. A reply without the entry has its reason, after "!", at
-- the nonce. Of the record, the first line counts. Where the record does not tell a copy of the command, a key with the
-- command's token does.
local function journal(kind, record, token, ms) -- journal
  if writer == '' then return end -- journal
  if token and redis.pcall('SET', KEYS[#KEYS] .. ':' .. token, '', 'PX', ms, 'NX') == false then return end -- journal
  local length, service, version = string.match(writer, '^(%d+) (%S+) (%S+)$') -- journal
  local to, attemptFence, count, content, mark = string.match(record, '^2(%a)(%d+) %S+ (%d+) %d+ (%S+) ?(%S*)\n') -- journal
  to = to == 'p' and 'in_progress' or to == 'c' and 'completed' or to == 'f' and 'failed' or 'released' -- journal
  local entry = redis.pcall('XADD', KEYS[#KEYS], 'MAXLEN', '~', length, '*', 'kind', kind, -- journal
    'key', string.sub(KEYS[1], #KEYS[#KEYS] - 4), 'state', to, 'fence', attemptFence, 'attempt', count, -- journal
    'fingerprint', content, 'note', mark, 'service', service, 'version', version) -- journal
  if entry.err then nonce = nonce .. '!' .. (string.match(entry.err, '%u%u%u+') or 'ERR') end -- journal
end -- journal
