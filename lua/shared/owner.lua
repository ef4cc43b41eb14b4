-- Whether the record is this attempt's, and in progress also whether its fence is; fence 0 compares the token alone.
local ownFence, ownToken = string.match(ARGV[2], '^2p(%d+) (%S+) $')
local mine = token == ownToken
local held = mine and (ownFence == '0' or fence == ownFence)
