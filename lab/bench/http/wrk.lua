-- What wrk sends in one slot. Arguments: a key for all requests, or '' with a prefix of the keys that each has for itself;
-- the body. Prints the result as a line of JSON.
local head, tail
local sent = 0

local function with_new_key()
  sent = sent + 1
  return head .. string.format('%012d', sent) .. tail
end

function init(args)
  local key, prefix, body = args[1], args[2], args[3]
  wrk.method = 'POST'
  wrk.body = body
  wrk.headers['content-type'] = 'application/json'
  wrk.headers['idempotency-key'] = key == '' and prefix or key
  if key ~= '' then return end
  local text = wrk.format()
  local _, last = text:find('idempotency-key: ' .. prefix, 1, true)
  head, tail = text:sub(1, last), text:sub(last + 1)
  -- wrk asks whether this function is there only now: one request for all costs it less.
  request = with_new_key
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '{"count":%d,"microseconds":%d,"failures":%d,"errors":%d,"p50":%f,"p99":%f,"p999":%f}\n',
    summary.requests,
    summary.duration,
    errors.status,
    errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50),
    latency:percentile(99),
    latency:percentile(99.9)
  ))
end
