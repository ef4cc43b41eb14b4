#!/usr/bin/env bash
# undici 7.30.2, Node 20.20: fetch() with a RetryAgent that may retry POST sends the retry WITHOUT the body.
#
# `new RetryAgent(new Agent(), { methods: ['POST'] })` repeats a POST whose connection was closed before the response. By
# `request()` the repetition is the same request. By `fetch()`, whose body is a stream that has been read, it arrives as a complete
# POST with all its header fields (an Idempotency-Key among them), `content-length: 0` and no body; the caller gets
# UND_ERR_REQ_CONTENT_LENGTH_MISMATCH. A server that compares content sees another request under the same key.
#
# Seen:
#   fetch: UND_ERR_REQ_CONTENT_LENGTH_MISMATCH; arrived [2 "{}" key-1] [0 "" key-1]
#   request: 201; arrived [2 "{}" key-1] [2 "{}" key-1]
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
echo '{"private":true,"type":"module"}' >package.json
npm install --silent --no-audit --no-fund undici@7.30.2
cat >seen.mjs <<'JS'
import http from 'node:http';
import { Agent, RetryAgent, fetch, request } from 'undici';

let arrived = [];
const server = http.createServer((req, res) => {
  let body = '';
  req.on('data', (chunk) => (body += chunk));
  req.on('end', () => {
    arrived.push(`[${req.headers['content-length']} "${body}" ${req.headers['idempotency-key']}]`);
    if (arrived.length === 1) req.socket.destroy();
    else res.writeHead(201).end('{}');
  });
});
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const url = `http://127.0.0.1:${server.address().port}/`;
const options = () => ({
  method: 'POST',
  headers: { 'idempotency-key': 'key-1' },
  body: '{}',
  dispatcher: new RetryAgent(new Agent(), { minTimeout: 1, methods: ['POST'] }),
});
for (const [name, send] of Object.entries({ fetch, request })) {
  arrived = [];
  const result = await send(url, options()).then(
    (response) => response.status ?? response.statusCode,
    (error) => error.cause?.code ?? error.code,
  );
  // The client may have given up before the server has read the repetition.
  while (arrived.length < 2) await new Promise((resolve) => setTimeout(resolve, 10));
  console.log(`${name}: ${result}; arrived ${arrived.join(' ')}`);
}
process.exit();
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 60 node seen.mjs)
echo "as described"
