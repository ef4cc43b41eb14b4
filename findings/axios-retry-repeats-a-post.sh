#!/usr/bin/env bash
# axios-retry 4.5.0 with axios 1.21.1, Node 20.20: by default, a POST whose response was lost IS sent again.
#
# Its default condition reads "network or idempotent request error": a POST that ends with a status is never repeated (409 and
# 503 with Retry-After neither), but one whose connection is closed before the response counts as a network error, whatever its
# method, although the server may have done the work. ky 1.14.3 and got 14.6.6 send such a POST once. When part of the response
# has arrived, axios-retry does not repeat it either (ERR_BAD_RESPONSE).
#
# Seen:
#   closed before the response: axios-retry 3, ky 1, got 1
#   closed within the response: axios-retry 1, got 1
#   503 with Retry-After: axios-retry 1, ky 1, got 1
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
echo '{"private":true,"type":"module"}' >package.json
npm install --silent --no-audit --no-fund axios@1.21.1 axios-retry@4.5.0 ky@1.14.3 got@14.6.6
cat >seen.mjs <<'JS'
import http from 'node:http';
import axios from 'axios';
import axiosRetry from 'axios-retry';
import got from 'got';
import ky from 'ky';

let requests = 0;
let answer;
const server = http.createServer((req, res) => {
  req.resume();
  req.on('end', () => {
    requests += 1;
    answer(req, res);
  });
});
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const url = `http://127.0.0.1:${server.address().port}/`;
const withRetries = axios.create();
axiosRetry(withRetries);
const clients = {
  'axios-retry': () => withRetries.post(url, {}),
  ky: () => ky.post(url, { json: {} }),
  got: () => got.post(url, { json: {} }),
};
const answers = {
  'closed before the response': (req, res) => (requests < 3 ? req.socket.destroy() : res.end('{}')),
  'closed within the response': (req, res) => {
    res.writeHead(201, { 'content-length': '10' });
    res.write('{', () => req.socket.destroy());
  },
  '503 with Retry-After': (_req, res) => res.writeHead(503, { 'retry-after': '0' }).end(),
};
for (const [name, of] of Object.entries(answers)) {
  answer = of;
  const counts = [];
  for (const [client, send] of Object.entries(clients)) {
    // ky leaves reading the body to its caller.
    if (client === 'ky' && name.includes('within')) continue;
    requests = 0;
    await send().catch(() => undefined);
    counts.push(`${client} ${requests}`);
  }
  console.log(`${name}: ${counts.join(', ')}`);
}
process.exit();
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 60 node seen.mjs)
echo "as described"
