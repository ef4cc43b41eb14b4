#!/usr/bin/env bash
# MQTT.js 5.16.0 with Mosquitto 2.0.11 (Debian 12), rhea 3.0.5 (AMQP 1.0), Node 20.20: a message is acknowledged when its handler
# comes to the first `await`, and what happens behind it is nobody's.
#
# Both hand a message to listeners of an event, and acknowledge it when the listeners have returned; one that is `async` returns at
# its first await. The broker then forgets the message, with QoS 1 and 2 and a session that is kept as well, although the payment has
# only been begun: a worker that is killed there, or whose bank says no, is never given it again. It looks right as long as nothing
# fails. What waits for the work is handleMessage() with MQTT.js, which its readme describes as a means against overload, and
# `autoaccept: false` with rhea, whose readme says that messages are accepted by themselves, not when.
#
# Seen, of one message whose worker is cut off while it waits for the bank, and comes back:
#   MQTT.js 3.1.1, QoS 1, on('message'): begun 1, delivered again 0
#   MQTT.js 3.1.1, QoS 2, on('message'): begun 1, delivered again 0
#   MQTT.js 5, QoS 1, on('message'): begun 1, delivered again 0
#   MQTT.js 5, QoS 2, on('message'): begun 1, delivered again 0
#   MQTT.js 5, QoS 1, handleMessage(): begun 1, delivered again 1
#   rhea, on('message'): begun, accepted, ended
#   rhea, autoaccept false: begun, ended, accepted
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
server=
trap '[ -z "$server" ] || { kill "$server" 2>/dev/null; wait "$server" 2>/dev/null; } ; rm -rf "$dir"' EXIT
cd "$dir"
echo '{"private":true,"type":"module"}' >package.json
npm install --silent --no-audit --no-fund --ignore-scripts mqtt@5.16.0 rhea@3.0.5
port=$(node -e 'const s=require("net").createServer().listen(0,"127.0.0.1",()=>{console.log(s.address().port);s.close()})')
printf 'listener %s 127.0.0.1\nallow_anonymous true\n' "$port" >mosquitto.conf
/usr/sbin/mosquitto -c mosquitto.conf >server.log 2>&1 &
server=$!
cat >seen.mjs <<'JS'
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import mqtt from 'mqtt';
import rhea from 'rhea';

const url = `mqtt://127.0.0.1:${process.argv[2]}`;
const until = async (isSo) => {
  for (let tries = 0; !isSo(); tries += 1) {
    if (tries > 200) throw new Error('in vain');
    await sleep(25);
  }
};
/** A worker whose payment has begun and never ends, since the process is cut off; and the one that takes its place. */
async function byMqtt(protocolVersion, qos, takes) {
  const session = { sessionExpiryInterval: 3600 };
  const options = { protocolVersion, clean: false, clientId: `worker-${protocolVersion}-${qos}-${takes}`, reconnectPeriod: 0 };
  if (protocolVersion === 5) options.properties = session;
  const topic = options.clientId;
  let begun = 0;
  let again = 0;
  const work = () => {
    begun += 1;
    return new Promise(() => undefined);
  };
  const worker = await mqtt.connectAsync(url, options);
  if (takes === 'handleMessage()') worker.handleMessage = (_packet, done) => void work().then(() => done());
  else worker.on('message', async () => void (await work()));
  await worker.subscribeAsync(topic, { qos });
  const sender = await mqtt.connectAsync(url);
  await sender.publishAsync(topic, 'pay', { qos });
  await until(() => begun === 1);
  // Time for an acknowledgement to arrive, if the worker sends one.
  await sleep(300);
  worker.stream.destroy();
  await once(worker, 'close');
  const next = mqtt.connect(url, options);
  next.on('message', () => (again += 1));
  await once(next, 'connect');
  await sleep(500);
  await next.endAsync(true);
  await sender.endAsync(true);
  return `begun ${begun}, delivered again ${again}`;
}
async function byRhea(autoaccept) {
  const events = [];
  const broker = rhea.create_container();
  const listener = broker.listen({ host: '127.0.0.1', port: 0 });
  await once(listener, 'listening');
  broker.once('sendable', ({ sender }) => sender.send({ body: 'pay' }));
  broker.on('accepted', () => events.push('accepted'));
  broker.on('disconnected', () => undefined);
  let finish;
  const bank = new Promise((resolve) => (finish = resolve));
  const worker = rhea.create_container();
  worker.on('message', async ({ delivery }) => {
    events.push('begun');
    await bank;
    events.push('ended');
    if (!autoaccept) delivery.accept();
  });
  const connection = worker.connect({ host: '127.0.0.1', port: listener.address().port, reconnect: false });
  connection.open_receiver({ source: 'payments', autoaccept });
  await until(() => events.includes('begun'));
  await sleep(200);
  finish();
  await until(() => events.length === 3);
  connection.close();
  listener.close();
  return events.join(', ');
}
await once(mqtt.connect(url, { reconnectPeriod: 50 }), 'connect');
for (const [version, qos, takes] of [
  [4, 1, "on('message')"],
  [4, 2, "on('message')"],
  [5, 1, "on('message')"],
  [5, 2, "on('message')"],
  [5, 1, 'handleMessage()'],
]) {
  console.log(`MQTT.js ${version === 4 ? '3.1.1' : 5}, QoS ${qos}, ${takes}: ${await byMqtt(version, qos, takes)}`);
}
console.log(`rhea, on('message'): ${await byRhea(true)}`);
console.log(`rhea, autoaccept false: ${await byRhea(false)}`);
process.exit();
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 60 node seen.mjs "$port")
echo "as described"
