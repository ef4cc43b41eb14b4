#!/usr/bin/env bash
# compression 1.8.2 and express-session 1.19.0 on Express 5.3.0, Node 20.20: the callbacks of res.end() and res.write() are never
# called.
#
# Node calls them when the bytes have been handed over, and code that commits, acknowledges or counts "after the response is out"
# lives there. Both middlewares put functions of two parameters in place of end() (compression of write(), too): the third argument
# is lost, also for a response that is not compressed and a session that is not saved. No error, no warning: what waits for the
# callback waits forever, after the client has its 201. The event 'finish' comes in all cases. compression's readme does not say so.
#
# Seen:
#   plain: status 201, end 1, write 1, finish 1
#   compression, below the threshold: status 201, end 0, write 0, finish 1
#   compression, compressed: status 201, end 0, write 0, finish 1
#   express-session: status 201, end 0, write 1, finish 1
#   express-session, nothing to save: status 201, end 0, write 1, finish 1
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
echo '{"private":true,"type":"module"}' >package.json
npm install --silent --no-audit --no-fund express@5.3.0 compression@1.8.2 express-session@1.19.0
cat >seen.mjs <<'JS'
import { once } from 'node:events';
import http from 'node:http';
import { setImmediate } from 'node:timers/promises';
import compression from 'compression';
import express from 'express';
import session from 'express-session';

const saved = { secret: 'secret', resave: true, saveUninitialized: true };
const ways = {
  plain: (_req, _res, next) => next(),
  'compression, below the threshold': compression(),
  'compression, compressed': compression({ threshold: 0 }),
  'express-session': session(saved),
  'express-session, nothing to save': session({ ...saved, resave: false, saveUninitialized: false }),
};
for (const [name, middleware] of Object.entries(ways)) {
  const calls = { end: 0, write: 0, finish: 0 };
  const app = express();
  app.use(middleware);
  app.post('/', (_req, res) => {
    res.on('finish', () => (calls.finish += 1));
    res.status(201).type('json');
    res.write('{"charge":', 'utf8', () => (calls.write += 1));
    res.end('1}', 'utf8', () => (calls.end += 1));
  });
  const server = http.createServer(app).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const headers = { 'accept-encoding': 'gzip' };
  const response = await fetch(`http://127.0.0.1:${server.address().port}/`, { method: 'POST', headers });
  if ((await response.json()).charge !== 1) throw new Error('another response');
  // The server is closed only after every connection, and what is due for them.
  server.closeIdleConnections();
  server.close();
  await once(server, 'close');
  await setImmediate();
  const { end, write, finish } = calls;
  console.log(`${name}: status ${response.status}, end ${end}, write ${write}, finish ${finish}`);
}
process.exit();
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 60 node seen.mjs 2>/dev/null)
echo "as described"
