-- The record in progress, its durations counted from now: its hard deadline may have passed.
local function renewed(lease, retention)
  return string.sub(value, 1, rest - 1) .. time[1] .. string.sub('00000' .. time[2], -6) .. ' ' .. lease .. ' '
    .. string.format('%.0f', deadline - now) .. ' ' .. retention .. ' ' .. origin .. '\n'
end
