#!/usr/bin/env bash
# coap 1.5.0 (node-coap), Node 20.20: a confirmable POST that is repeated because its acknowledgement was lost runs its handler a
# second time, while the first is at work.
#
# CoAP repeats a datagram, with its message id, until it is acknowledged, and a server knows the repetition by the id: RFC 7252
# (4.5) wants it acknowledged again and the request processed once. The package does that for a request that it has answered, from a
# list of answers. One whose handler is at work is on no list. After 50 ms an empty acknowledgement goes out, and where that is lost
# the client's repetition two to three seconds later is a new request: a valve that takes its time is opened twice, and the client
# gets one answer. Devices that are slow, on a link that loses, are what the protocol is for. `piggybackReplyMs` with more than
# these two seconds, to put answer and acknowledgement into one datagram, does it without any loss. A test on the loopback, or with
# a handler that answers at once, sees none of it. The readme does not mention duplicates.
#
# Seen:
#   answers at once, nothing lost: run once, answers 1
#   answers at once, answer lost: run once, answers 1
#   answers after 4 s, nothing lost: run once, answers 1
#   answers after 4 s, acknowledgement lost: run twice, answers 1
#   answers after 4 s, piggybackReplyMs 5000, nothing lost: run twice, answers 1
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
echo '{"private":true,"type":"module"}' >package.json
npm install --silent --no-audit --no-fund --ignore-scripts coap@1.5.0
cat >seen.mjs <<'JS'
import dgram from 'node:dgram';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import coap from 'coap';

const bound = async () => {
  const socket = dgram.createSocket('udp4').bind(0, '127.0.0.1');
  await once(socket, 'listening');
  return socket;
};
const freePort = async () => {
  const socket = await bound();
  const { port } = socket.address();
  await new Promise((resolve) => socket.close(resolve));
  return port;
};
/** A link between a client and a server of CoAP that loses the first datagrams from the server. */
async function link(serverPort, lost) {
  const [near, far] = [await bound(), await bound()];
  let client;
  let left = lost;
  near.on('message', (datagram, from) => {
    client = from;
    far.send(datagram, serverPort, '127.0.0.1');
  });
  far.on('message', (datagram) => {
    if (left > 0) left -= 1;
    else near.send(datagram, client.port, client.address);
  });
  return near.address().port;
}
async function seen(wait, lost, options = {}) {
  let runs = 0;
  const server = coap.createServer(options);
  server.on('request', async (_request, response) => {
    runs += 1;
    await sleep(wait);
    response.end('open');
  });
  const serverPort = await freePort();
  await new Promise((resolve) => server.listen(serverPort, '127.0.0.1', resolve));
  let answers = 0;
  const request = coap.request({ host: '127.0.0.1', port: await link(serverPort, lost), method: 'POST', pathname: '/valve' });
  request.on('response', () => (answers += 1));
  request.end('open');
  // The client's first repetition comes within three seconds, and the last handler ends four seconds after it.
  await sleep(9000);
  return `run ${['never', 'once', 'twice'][runs] ?? 'more often'}, answers ${answers}`;
}
const ways = {
  'answers at once, nothing lost': [0, 0],
  'answers at once, answer lost': [0, 1],
  'answers after 4 s, nothing lost': [4000, 0],
  'answers after 4 s, acknowledgement lost': [4000, 1],
  'answers after 4 s, piggybackReplyMs 5000, nothing lost': [4000, 0, { piggybackReplyMs: 5000 }],
};
const lines = Object.entries(ways).map(async ([name, way]) => `${name}: ${await seen(...way)}`);
for (const line of lines) console.log(await line);
process.exit();
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 60 node seen.mjs)
echo "as described"
