-- The nonce, the server's clock, and the record's first bytes: a finished record may be long.
local nonce = ARGV[1]
local time = redis.call('TIME')
local nowUs = time[1] * 1000000 + time[2]
local now = math.floor(nowUs / 1000)
local value = redis.call('GETRANGE', KEYS[1], '0', '511')
