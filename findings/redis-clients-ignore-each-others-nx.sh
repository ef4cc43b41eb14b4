#!/usr/bin/env bash
# redis (node-redis) 6.3.1, @upstash/redis 1.39.0, @valkey/valkey-glide 2.5.2, ioredis 5.11.1, redis-server 7.0 of Debian 12, Node
# 20.20: "set if absent, for 9 seconds" in the words of another client is a plain SET, for everybody and for ever.
#
# All four take options after the value, each in words of its own, and three of them look only for their own: node-redis wants
# { NX: true, EX: 9 }, Upstash the same in lower case, GLIDE { conditionalSet, expiry }, ioredis 'EX', 9, 'NX' (as node-redis did up
# to 3). What they do not know they leave out, without an error or a warning: a lock that was carried over from one client to
# another answers OK to every competitor, and its key has no expiry. ioredis sends what it is given, and the server rejects it.
# Types find it, where types are checked; plain JavaScript, an `any`, or options that came in a variable pass.
# Upstash speaks HTTP: a few lines stand for its server, and hand each command to the same redis-server.
#
# Seen:
#   redis { NX: true, EX: 9 }: 1 winner of 8, expires
#   redis { nx: true, ex: 9 }: 8 winners of 8, never expires
#   redis 'EX', 9, 'NX': 8 winners of 8, never expires
#   redis { conditionalSet, expiry }: 8 winners of 8, never expires
#   upstash { NX: true, EX: 9 }: 8 winners of 8, never expires
#   upstash { nx: true, ex: 9 }: 1 winner of 8, expires
#   upstash 'EX', 9, 'NX': 0 winners of 8, TypeError
#   upstash { conditionalSet, expiry }: 8 winners of 8, never expires
#   glide { NX: true, EX: 9 }: 8 winners of 8, never expires
#   glide { nx: true, ex: 9 }: 8 winners of 8, never expires
#   glide 'EX', 9, 'NX': 8 winners of 8, never expires
#   glide { conditionalSet, expiry }: 1 winner of 8, expires
#   ioredis { NX: true, EX: 9 }: 0 winners of 8, ReplyError
#   ioredis { nx: true, ex: 9 }: 0 winners of 8, ReplyError
#   ioredis 'EX', 9, 'NX': 1 winner of 8, expires
#   ioredis { conditionalSet, expiry }: 0 winners of 8, ReplyError
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
server=
trap '[ -z "$server" ] || { kill "$server" 2>/dev/null; wait "$server" 2>/dev/null; } ; rm -rf "$dir"' EXIT
cd "$dir"
port=$(node -e 'const s=require("net").createServer().listen(0,"127.0.0.1",()=>{console.log(s.address().port);s.close()})')
redis-server --port "$port" --bind 127.0.0.1 --save '' --dir "$dir" >redis.log 2>&1 &
server=$!
echo '{"private":true,"type":"module"}' >package.json
npm install --silent --no-audit --no-fund redis@6.3.1 @upstash/redis@1.39.0 @valkey/valkey-glide@2.5.2 ioredis@5.11.1
for _ in $(seq 100); do redis-cli -p "$port" ping >/dev/null 2>&1 && break || sleep 0.1; done
cat >seen.mjs <<'JS'
import { once } from 'node:events';
import http from 'node:http';
import { Redis as Upstash } from '@upstash/redis';
import { GlideClient } from '@valkey/valkey-glide';
import { Redis as IoRedis } from 'ioredis';
import { createClient } from 'redis';

const address = { host: '127.0.0.1', port: Number(process.argv[2]) };
const direct = new IoRedis(address);
const rest = http.createServer(async (req, res) => {
  let text = '';
  for await (const part of req) text += part;
  const run = ([name, ...args]) =>
    direct.call(name, ...args).then((result) => ({ result }), (error) => ({ error: error.message }));
  const body = JSON.parse(text);
  const reply = await (Array.isArray(body[0]) ? Promise.all(body.map(run)) : run(body));
  res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(reply));
});
await once(rest.listen(0, '127.0.0.1'), 'listening');
const clients = {
  redis: await createClient({ socket: address }).connect(),
  upstash: new Upstash({
    url: `http://127.0.0.1:${rest.address().port}`,
    token: 'any',
    responseEncoding: false,
    enableAutoPipelining: false,
  }),
  glide: await GlideClient.createClient({ addresses: [address] }),
  ioredis: new IoRedis(address),
};
const words = {
  '{ NX: true, EX: 9 }': [{ NX: true, EX: 9 }],
  '{ nx: true, ex: 9 }': [{ nx: true, ex: 9 }],
  "'EX', 9, 'NX'": ['EX', 9, 'NX'],
  '{ conditionalSet, expiry }': [{ conditionalSet: 'onlyIfDoesNotExist', expiry: { type: 'EX', count: 9 } }],
};
for (const [name, client] of Object.entries(clients)) {
  for (const [form, options] of Object.entries(words)) {
    const key = `${name} ${form}`;
    const ends = [];
    for (let one = 0; one < 8; one += 1) {
      const set = async () => client.set(key, `owner ${one}`, ...options);
      ends.push(await set().catch((error) => error.name));
    }
    const winners = ends.filter((end) => end === 'OK').length;
    const ttl = await direct.ttl(key);
    const rest = winners === 0 ? ends[0] : ttl === -1 ? 'never expires' : 'expires';
    console.log(`${key}: ${winners} winner${winners === 1 ? '' : 's'} of 8, ${rest}`);
  }
}
process.exit();
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 60 node seen.mjs "$port")
echo "as described"
