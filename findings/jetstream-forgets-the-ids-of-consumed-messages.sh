#!/usr/bin/env bash
# nats-server 2.9.10 (Debian 12) with @nats-io/jetstream 3.4.0, Node 20.20: after a restart a work queue takes a message a second
# time whose Nats-Msg-Id it has seen within the duplicate window; and after a purge it takes none.
#
# The window is a list in memory, apart from the messages. A restart makes it anew from the messages that are still stored: in a
# stream that keeps them, a duplicate stays one; what a consumer of a work queue has acknowledged is gone, and its id with it, so the
# retry of a publisher runs the job again. While the server lives it is the other way round: the ids of removed messages count, so
# that a message published again after a purge is answered "duplicate", with the sequence of the one that is gone, and none is stored.
# The list is one for the stream, too: an id used on another subject is a duplicate, and that message is lost. The documentation
# promises that a message with a seen id is not stored again within the window (two minutes by default), and names no exception.
#
# Seen:
#   kept, sent again after a restart: duplicate true, jobs run 1
#   work queue, sent again: duplicate true, jobs run 1
#   work queue, sent again after a restart: duplicate false, jobs run 2
#   sent again after a purge: duplicate true, stored 0
#   on another subject: duplicate true, stored 0
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
echo '{"private":true,"type":"module"}' >package.json
npm install --silent --no-audit --no-fund @nats-io/transport-node@3.4.0 @nats-io/jetstream@3.4.0
cat >seen.mjs <<'JS'
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import net from 'node:net';
import { jetstream, jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';

const free = net.createServer().listen(0, '127.0.0.1');
await once(free, 'listening');
const { port } = free.address();
free.close();
await once(free, 'close');

let server;
let connection;
let manager;
let stream;
const start = async () => {
  server = spawn('nats-server', ['-a', '127.0.0.1', '-p', `${port}`, '-js', '-sd', 'data'], { stdio: 'ignore' });
  process.on('exit', () => server.kill('SIGKILL'));
  connection = await connect({ servers: `127.0.0.1:${port}`, waitOnFirstConnect: true, reconnectTimeWait: 50 });
  manager = await jetstreamManager(connection);
  stream = jetstream(connection);
};
const restart = async () => {
  await connection.close();
  server.kill('SIGTERM');
  await once(server, 'exit');
  await start();
};
await start();

let ran = 0;
const publish = async (subject, msgID) => `duplicate ${(await stream.publish(subject, 'pay', { msgID })).duplicate === true}`;
const runJobs = async (name) => {
  const consumer = await stream.consumers.get(name, 'worker');
  for (let job = await consumer.next({ expires: 1000 }); job; job = await consumer.next({ expires: 1000 })) {
    ran += 1;
    await job.ackAck();
  }
};
for (const [title, name, retention] of [['kept', 'kept', 'limits'], ['work queue', 'work', 'workqueue']]) {
  ran = 0;
  await manager.streams.add({ name, subjects: [`${name}.>`], retention, storage: 'file' });
  await manager.consumers.add(name, { durable_name: 'worker', ack_policy: 'explicit' });
  await publish(`${name}.pay`, 'id-1');
  await runJobs(name);
  if (retention === 'workqueue') {
    const again = await publish(`${name}.pay`, 'id-1');
    await runJobs(name);
    console.log(`${title}, sent again: ${again}, jobs run ${ran}`);
  }
  await restart();
  const after = await publish(`${name}.pay`, 'id-1');
  await runJobs(name);
  console.log(`${title}, sent again after a restart: ${after}, jobs run ${ran}`);
}

const stored = async (filter) => {
  const { state } = await manager.streams.info('plain', { subjects_filter: filter });
  return Object.values(state.subjects ?? {}).reduce((sum, count) => sum + count, 0);
};
await manager.streams.add({ name: 'plain', subjects: ['plain.>'] });
await publish('plain.pay', 'id-2');
await manager.streams.purge('plain');
console.log(`sent again after a purge: ${await publish('plain.pay', 'id-2')}, stored ${await stored('plain.pay')}`);
await publish('plain.pay', 'id-3');
console.log(`on another subject: ${await publish('plain.refund', 'id-3')}, stored ${await stored('plain.refund')}`);
process.exit();
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 90 node seen.mjs)
echo "as described"
