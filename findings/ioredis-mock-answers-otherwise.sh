#!/usr/bin/env bash
# ioredis-mock 8.13.1 with ioredis 5.11.1, redis-server 7.0 (Debian 12), Node 20.20: seven usual lines of a lock or a record whose
# replies are others than the server's, without an error.
#
# A script that lost returns false, which is null to a client of the server and `false` to one of the mock: `reply === null` is never
# true. Within a script, SET's "OK" has a field `ok` on the server and none here, so `.ok` never wins. A number loses its fraction on
# the server only; a table ends at its first nil there, and is undefined here. KEEPTTL is taken, and the expiry is lost: a record that
# would end stays for ever. PX 0 is refused by the server. A command's wrong type is an error on the server; here the hash comes back.
#
# Seen:
#   reply of a script that returns false: server null, mock false
#   redis.call('SET', …, 'NX').ok in a script that wins: server "OK", mock undefined
#   script returns 3.7: server 3, mock 3.7
#   script returns {1, nil, 3}: server [1], mock undefined
#   still expires after SET … KEEPTTL: server true, mock false
#   SET … PX 0: server error, mock "OK"
#   GET of a hash: server error, mock {"a":"1"}
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
server=
trap '[ -z "$server" ] || { kill "$server" 2>/dev/null; wait "$server" 2>/dev/null; } ; rm -rf "$dir"' EXIT
cd "$dir"
port=$(node -e 'const s=require("net").createServer().listen(0,"127.0.0.1",()=>{console.log(s.address().port);s.close()})')
redis-server --port "$port" --bind 127.0.0.1 --save '' --dir "$dir" >server.log &
server=$!
echo '{"private":true,"type":"module"}' >package.json
npm install --silent --no-audit --no-fund ioredis@5.11.1 ioredis-mock@8.13.1
cat >seen.mjs <<'JS'
import Redis from 'ioredis';
import Mock from 'ioredis-mock';

const clients = { server: new Redis(Number(process.argv[2]), '127.0.0.1'), mock: new Mock() };
const lines = {
  'reply of a script that returns false': (redis) => redis.eval('return false', 0),
  "redis.call('SET', …, 'NX').ok in a script that wins": (redis) =>
    redis.eval(`return redis.call('SET', KEYS[1], ARGV[1], 'NX').ok`, 1, 'lock', 'owner'),
  'script returns 3.7': (redis) => redis.eval('return 3.7', 0),
  'script returns {1, nil, 3}': (redis) => redis.eval('return {1, nil, 3}', 0),
  'still expires after SET … KEEPTTL': async (redis) => {
    await redis.set('record', 'begun', 'PX', 60_000);
    await redis.set('record', 'done', 'KEEPTTL');
    return (await redis.pttl('record')) > 0;
  },
  'SET … PX 0': (redis) => redis.set('short', 'v', 'PX', 0),
  'GET of a hash': async (redis) => {
    await redis.hset('hash', 'a', '1');
    return redis.get('hash');
  },
};
for (const [name, send] of Object.entries(lines)) {
  const replies = [];
  for (const [client, redis] of Object.entries(clients)) {
    const reply = await send(redis).then(
      (value) => JSON.stringify(value),
      () => 'error',
    );
    replies.push(`${client} ${reply}`);
  }
  console.log(`${name}: ${replies.join(', ')}`);
}
process.exit();
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 60 node seen.mjs "$port")
echo "as described"
