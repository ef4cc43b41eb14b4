-- The record's fields. Without a live record, state is nil; after an expired one, fence is that record's.
local function readAll() value = redis.call('GET', KEYS[1]) end
-- An empty value is not an absent one, and an origin may be long.
if value == '' or #value == 256 and not string.find(value, '^2[cfr][^\n]*\n%d+\n') then readAll() end
local state, fence, token, attempt, takeovers, fingerprint, note, rest
local since, leaseMs, leaseUntil, deadline, expiresAt, origin
if value then
  -- A note includes the space before it.
  state, fence, token, attempt, takeovers, fingerprint, note, rest =
    string.match(value, '^2([pcfr])(%d+) (%S+) (%d+) (%d+) (%S+)( ?%S*)\n()')
  if state == 'p' then
    since, leaseMs, deadline, expiresAt, origin = string.match(value, '^([=%d]%d*) (%d+) (%-?%d+) (%d+) (%S+)\n$', rest)
    if since then
      since = math.floor((since == '=' and fence or since) / 1000)
      deadline, expiresAt = since + deadline, since + expiresAt
      leaseUntil = math.min(since + leaseMs, deadline)
    end
  elseif state then
    expiresAt = tonumber(string.match(value, '^(%d+)\n', rest))
  end
  if not expiresAt then return redis.error_reply('UNKNOWNRECORD the key holds no record of format 2') end
  if expiresAt <= now then state = nil end
end
