#!/usr/bin/env bash
# redis (node-redis) 6.3.1, redis-server 7.0 of Debian 12, Node 20.20: its Sentinel client sends a command again whose connection
# was closed before the reply.
#
# createClient() rejects such a command (SocketClosedUnexpectedlyError): whether it ran is unknown, and that is the caller's to
# decide. createSentinel() looks the primary up again and repeats any command by default, an INCR or a script as well, so one call
# counts twice and its promise is fulfilled as if nothing had happened. `maxCommandRediscovers: 0` ends the repetition.
#
# Seen:
#   client: rejected, counter 1
#   sentinel: fulfilled with 2, counter 2
#   sentinel, maxCommandRediscovers 0: rejected, counter 1
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
pids=()
trap 'for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done; wait 2>/dev/null; rm -rf "$dir"' EXIT
cd "$dir"
read -r redis_port proxy_port sentinel_port < <(node -e '
const { createServer } = require("node:net");
const servers = [1, 2, 3].map(() => createServer().listen(0, "127.0.0.1"));
setTimeout(() => { console.log(servers.map((s) => s.address().port).join(" ")); servers.forEach((s) => s.close()); }, 50);')
redis-server --port "$redis_port" --bind 127.0.0.1 --save '' --dir "$dir" >redis.log 2>&1 &
pids+=($!)
echo '{"private":true,"type":"module"}' >package.json
npm install --silent --no-audit --no-fund redis@6.3.1
# Sentinel and its clients see the primary at the proxy's port.
cat >proxy.mjs <<'JS'
import net from 'node:net';

const [redisPort, proxyPort] = process.argv.slice(2).map(Number);
const cut = new Set();
net
  .createServer((client) => {
    const server = net.connect(redisPort, '127.0.0.1');
    let key;
    client.on('data', (bytes) => {
      key = /INCR\r\n\$\d+\r\n(\S+)/.exec(bytes.toString('latin1'))?.[1] ?? key;
      server.write(bytes);
    });
    server.on('data', (bytes) => {
      // The first reply to an INCR of each key is lost, and its connection with it.
      if (key === undefined || cut.has(key)) client.write(bytes);
      else {
        cut.add(key);
        client.destroy();
      }
    });
    for (const [one, other] of [[client, server], [server, client]]) {
      one.on('error', () => undefined);
      one.on('close', () => other.destroy());
    }
  })
  .listen(proxyPort, '127.0.0.1');
JS
node proxy.mjs "$redis_port" "$proxy_port" &
pids+=($!)
cat >sentinel.conf <<S
port $sentinel_port
bind 127.0.0.1
dir $dir
sentinel monitor primary 127.0.0.1 $proxy_port 1
S
redis-server sentinel.conf --sentinel >sentinel.log 2>&1 &
pids+=($!)
cat >seen.mjs <<'JS'
import { createClient, createSentinel } from 'redis';

const [proxyPort, sentinelPort, redisPort] = process.argv.slice(2).map(Number);
const sentinel = { name: 'primary', sentinelRootNodes: [{ host: '127.0.0.1', port: sentinelPort }] };
const ways = {
  client: createClient({ url: `redis://127.0.0.1:${proxyPort}` }),
  sentinel: createSentinel(sentinel),
  'sentinel, maxCommandRediscovers 0': createSentinel({ ...sentinel, maxCommandRediscovers: 0 }),
};
const direct = await createClient({ url: `redis://127.0.0.1:${redisPort}` }).connect();
for (const [name, client] of Object.entries(ways)) {
  client.on('error', () => undefined);
  await client.connect();
  const key = name.replaceAll(/\W/g, '');
  const end = await client.incr(key).then(
    (value) => `fulfilled with ${value}`,
    () => 'rejected',
  );
  console.log(`${name}: ${end}, counter ${await direct.get(key)}`);
}
process.exit();
JS
for _ in $(seq 100); do redis-cli -p "$sentinel_port" ping >/dev/null 2>&1 && break || sleep 0.1; done
diff <(sed -n 's/^#   //p' "$self") <(timeout 60 node seen.mjs "$proxy_port" "$sentinel_port" "$redis_port")
echo "as described"
