#!/usr/bin/env bash
# MQTT.js 5.16.0 with Mosquitto 2.0.11 (Debian 12), Node 20.20: with default options, publish() of QoS 2 is fulfilled for a message
# that nobody gets, if the connection breaks between PUBREC and PUBREL.
#
# Mosquitto hands a message of QoS 2 on when PUBREL arrives. MQTT.js connects with a clean session by default (`clean: true`), so
# that the server drops the half-sent message with the old connection. The client keeps its own half in memory, sends the PUBREL
# alone in the new session, and takes the server's PUBCOMP for success, although it saw in CONNACK that no session was present. A
# break anywhere else in the exchange loses nothing. With `clean: false` and a client id of its own the message is delivered once.
# The readme says that QoS 2 is received exactly once, and `clean: false` only that messages are received while offline.
#
# Seen:
#   3.1.1, default, before PUBREL: fulfilled, delivered 0
#   3.1.1, default, before PUBREC: fulfilled, delivered 1
#   3.1.1, default, before PUBCOMP: fulfilled, delivered 1
#   3.1.1, clean: false, before PUBREL: fulfilled, delivered 1
#   5, default, before PUBREL: fulfilled, delivered 0
#   5, default, before PUBREC: fulfilled, delivered 1
#   5, default, before PUBCOMP: fulfilled, delivered 1
#   5, clean: false, before PUBREL: fulfilled, delivered 1
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
server=
trap '[ -z "$server" ] || { kill "$server" 2>/dev/null; wait "$server" 2>/dev/null; } ; rm -rf "$dir"' EXIT
cd "$dir"
echo '{"private":true,"type":"module"}' >package.json
npm install --silent --no-audit --no-fund mqtt@5.16.0
port=$(node -e 'const s=require("net").createServer().listen(0,"127.0.0.1",()=>{console.log(s.address().port);s.close()})')
printf 'listener %s 127.0.0.1\nallow_anonymous true\n' "$port" >server.conf
mosquitto -c server.conf >server.log 2>&1 &
server=$!
cat >seen.mjs <<'JS'
import net from 'node:net';
import mqtt from 'mqtt';

const port = Number(process.argv[2]);
const kinds = { 5: 'PUBREC', 6: 'PUBREL', 7: 'PUBCOMP' };
let cutBefore = '';

/** Calls `take` with each complete packet of a connection. */
const packets = (socket, take) => {
  let bytes = Buffer.alloc(0);
  socket.on('data', (chunk) => {
    bytes = Buffer.concat([bytes, chunk]);
    // Every packet of this exchange is shorter than 128 bytes, so its length is the second byte.
    while (bytes.length >= 2 && bytes.length >= 2 + bytes[1]) {
      take(bytes.subarray(0, 2 + bytes[1]));
      bytes = bytes.subarray(2 + bytes[1]);
    }
  });
};
const proxy = net.createServer((client) => {
  const server = net.connect(port, '127.0.0.1');
  for (const [from, to] of [[client, server], [server, client]]) {
    packets(from, (packet) => {
      if (client.destroyed) return;
      if (kinds[packet[0] >> 4] === cutBefore) {
        cutBefore = '';
        client.destroy();
      } else to.write(packet);
    });
    from.on('error', () => undefined);
    from.on('close', () => to.destroy());
  }
});
await new Promise((resolve) => proxy.listen(0, '127.0.0.1', resolve));

const delivered = {};
// It reconnects until the server has started.
const subscriber = mqtt.connect(`mqtt://127.0.0.1:${port}`, { reconnectPeriod: 50 });
subscriber.on('error', () => undefined);
await new Promise((resolve) => subscriber.once('connect', resolve));
await subscriber.subscribeAsync('#', { qos: 2 });
subscriber.on('message', (topic) => (delivered[topic] = (delivered[topic] ?? 0) + 1));

let clients = 0;
for (const [version, protocolVersion] of [['3.1.1', 4], ['5', 5]]) {
  const kept = { clean: false, ...(protocolVersion === 5 && { properties: { sessionExpiryInterval: 60 } }) };
  for (const [options, before, name] of [
    [{}, 'PUBREL', 'default'],
    [{}, 'PUBREC', 'default'],
    [{}, 'PUBCOMP', 'default'],
    [kept, 'PUBREL', 'clean: false'],
  ]) {
    cutBefore = before;
    const clientId = `publisher-${(clients += 1)}`;
    const client = mqtt.connect(`mqtt://127.0.0.1:${proxy.address().port}`, {
      ...options,
      protocolVersion,
      clientId,
      reconnectPeriod: 50,
    });
    client.on('error', () => undefined);
    const end = await client.publishAsync(clientId, 'pay', { qos: 2 }).then(
      () => 'fulfilled',
      () => 'rejected',
    );
    // What is sent after it has arrived after it.
    const last = `${clientId}/last`;
    await client.publishAsync(last, '', { qos: 2 });
    while (delivered[last] === undefined) await new Promise((resolve) => setTimeout(resolve, 10));
    console.log(`${version}, ${name}, before ${before}: ${end}, delivered ${delivered[clientId] ?? 0}`);
    client.end(true);
  }
}
process.exit();
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 60 node seen.mjs "$port")
echo "as described"
