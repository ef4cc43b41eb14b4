#!/usr/bin/env bash
# redis (node-redis) 6.3.1 and 5.12.1, Node 20.20: connect() right after destroy() leaves connections that no call ends any more.
#
# A server accepts connections and does not reply, as one that is paused does, and the application replaces the connection by
# destroy() and connect(). connect() is allowed at once: destroy() has made the client "not open". But the attempt that destroy()
# ended learns of it a moment later, finds the client open again, and goes on beside the new one: each has a socket, the client
# keeps one of them, and each replacement adds an attempt. In version 6 a pause of a moment between the two helps. In version 5 the
# old attempt first sleeps as long as `reconnectStrategy` says: the pause has to be longer.
#
# Seen:
#   6, connect() at once: more than one connection, some left after destroy()
#   6, after 1 ms: one connection, none left after destroy()
#   6, after 200 ms: one connection, none left after destroy()
#   5, connect() at once: more than one connection, some left after destroy()
#   5, after 1 ms: more than one connection, some left after destroy()
#   5, after 200 ms: one connection, none left after destroy()
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
echo '{"private":true,"type":"module"}' >package.json
npm install --silent --no-audit --no-fund redis-6@npm:redis@6.3.1 redis-5@npm:redis@5.12.1
cat >seen.mjs <<'JS'
import { once } from 'node:events';
import { createServer } from 'node:net';
import { setTimeout } from 'node:timers/promises';

const REPLACEMENTS = 6;

for (const major of [6, 5]) {
  const { createClient } = await import(`redis-${major}`);
  for (const [name, pauseMs] of [['connect() at once', 0], ['after 1 ms', 1], ['after 200 ms', 200]]) {
    const open = new Set();
    let most = 0;
    const silent = createServer((socket) => {
      open.add(socket);
      most = Math.max(most, open.size);
      socket.on('error', () => undefined).on('close', () => open.delete(socket)).resume();
    }).listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const { port } = silent.address();
    const client = createClient({ socket: { host: '127.0.0.1', port, reconnectStrategy: 50 } });
    client.on('error', () => undefined);
    const connect = () => client.connect().catch(() => undefined);
    connect();
    for (let i = 0; i < REPLACEMENTS; i += 1) {
      await setTimeout(300);
      client.destroy();
      if (pauseMs > 0) await setTimeout(pauseMs);
      connect();
    }
    await setTimeout(300);
    client.destroy();
    await setTimeout(500);
    const [has, leaves] = [most > 1 ? 'more than one' : 'one', open.size > 0 ? 'some' : 'none'];
    console.log(`${major}, ${name}: ${has} connection, ${leaves} left after destroy()`);
    for (const socket of open) socket.destroy();
    silent.close();
  }
}
process.exit();
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 90 node seen.mjs)
echo "as described"
