#!/usr/bin/env bash
# got 14.6.6, make-fetch-happen 15.0.6, needle 3.5.0, Node 20.20: a POST that is redirected by 307 or 308 arrives at its new place
# EMPTY, with its Idempotency-Key, and the caller gets 200.
#
# Both statuses ask for the same request again. A body that was a stream is read by then. got (up to 14) and make-fetch-happen send
# the POST all the same, with content-length 0; a server that records what it did for the key records it of no content, and the
# right request is turned down later for being another one. needle sends a GET in place of any redirected method (follow_keep_method
# changes that, its readme says, and does not except 307), so the payment is never made. Node's fetch and node-fetch reject instead,
# axios keeps the bytes and sends them again; got rejects since 15. The readmes of got 14 and make-fetch-happen do not mention it.
#
# Seen, for 307 and for 308:
#   got, stream: 200; arrived POST 0 key-1
#   got, text: 200; arrived POST 5 key-1
#   make-fetch-happen, stream: 200; arrived POST 0 key-1
#   make-fetch-happen, text: 200; arrived POST 5 key-1
#   needle, text: 200; arrived GET 0 key-1
#   axios, stream: 200; arrived POST 5 key-1
#   node-fetch, stream: rejected; arrived nothing
#   fetch, stream: rejected; arrived nothing
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
echo '{"private":true,"type":"module"}' >package.json
npm install --silent --no-audit --no-fund got@14.6.6 make-fetch-happen@15.0.6 needle@3.5.0 axios@1.21.1 node-fetch@3.3.2
cat >seen.mjs <<'JS'
import http from 'node:http';
import { Readable } from 'node:stream';
import axios from 'axios';
import got from 'got';
import makeFetchHappen from 'make-fetch-happen';
import needle from 'needle';
import nodeFetch from 'node-fetch';

const status = Number(process.argv[2]);
let arrived;
const server = http.createServer((req, res) => {
  let length = 0;
  req.on('data', (chunk) => (length += chunk.length));
  req.on('end', () => {
    if (req.url === '/old') return res.writeHead(status, { location: '/new' }).end();
    arrived = `${req.method} ${length} ${req.headers['idempotency-key']}`;
    res.end('{}');
  });
});
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const url = `http://127.0.0.1:${server.address().port}/old`;
const headers = { 'idempotency-key': 'key-1', 'content-type': 'text/plain' };
const method = 'POST';
const stream = () => Readable.from([Buffer.from('12.50')]);
const ways = {
  'got, stream': () => got.post(url, { headers, body: stream() }),
  'got, text': () => got.post(url, { headers, body: '12.50' }),
  'make-fetch-happen, stream': () => makeFetchHappen(url, { method, headers, body: stream() }),
  'make-fetch-happen, text': () => makeFetchHappen(url, { method, headers, body: '12.50' }),
  'needle, text': () => needle('post', url, '12.50', { headers, follow_max: 1 }),
  'axios, stream': () => axios.post(url, stream(), { headers }),
  'node-fetch, stream': () => nodeFetch(url, { method, headers, body: stream() }),
  'fetch, stream': () => fetch(url, { method, headers, body: Readable.toWeb(stream()), duplex: 'half' }),
};
for (const [name, post] of Object.entries(ways)) {
  arrived = 'nothing';
  const end = await post().then(
    (response) => response.status ?? response.statusCode,
    () => 'rejected',
  );
  console.log(`${name}: ${end}; arrived ${arrived}`);
}
process.exit();
JS
for status in 307 308; do
  diff <(sed -n 's/^#   //p' "$self") <(timeout 60 node seen.mjs "$status")
done
echo "as described"
