#!/usr/bin/env bash
# eventsource-client 1.2.0, eventsource 4.1.1, @microsoft/fetch-event-source 2.0.1, Node 20.20: a POST that is answered by a stream
# of events is sent again and again, the first two clients' also after it has been answered to the end.
#
# A payment's progress or a model's answer is sent as such a stream, and the three take a method and a body for it, or the fetch()
# that has them. Their rules are a browser's for a GET that listens: a stream that ends is opened anew, two to three seconds later,
# for as long as the program runs. A server that has done its work and ends the response is asked to do it again; status 204 or
# close() stops it. fetch-event-source takes the end of a response for the end, but repeats what broke or was answered 500 each
# second, without a bound, and POSTs again when a browser's tab was hidden and is shown while the answer runs (unless openWhenHidden
# is on). No try has a key. eventsource-client's readme promises "any request method", and reconnection as a feature; that of
# fetch-event-source, whose examples are POSTs, tells of its retries and of hidden tabs as a saving for the server. That work is
# done again none of them says.
#
# Seen, in seven seconds:
#   eventsource-client: answered to the end, again and again; broken, again and again; status 500, again and again; 204 to the second, twice
#   eventsource: answered to the end, again and again; broken, again and again; status 500, once; 204 to the second, twice
#   fetch-event-source: answered to the end, once; broken, again and again; status 500, again and again; 204 to the second, once
#   fetch-event-source, tab hidden and shown: twice
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
echo '{"private":true,"type":"module"}' >package.json
npm install --silent --no-audit --no-fund --ignore-scripts eventsource-client@1.2.0 eventsource@4.1.1 @microsoft/fetch-event-source@2.0.1
cat >seen.mjs <<'JS'
import { once } from 'node:events';
import http from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { EventSource } from 'eventsource';
import { createEventSource } from 'eventsource-client';

// What fetch-event-source asks of a browser.
const document = Object.assign(new EventTarget(), { hidden: false });
Object.assign(globalThis, { window: globalThis, document });
const { fetchEventSource } = await import('@microsoft/fetch-event-source');
const show = (isShown) => {
  document.hidden = !isShown;
  document.dispatchEvent(new Event('visibilitychange'));
};
const payment = { method: 'POST', body: '{"amount":1}' };
const clients = {
  'eventsource-client': (url) => createEventSource({ url, ...payment }),
  eventsource: (url) => new EventSource(url, { fetch: (address, init) => fetch(address, { ...init, ...payment }) }),
  'fetch-event-source': (url) => {
    const controller = new AbortController();
    fetchEventSource(url, { ...payment, headers: {}, signal: controller.signal }).catch(() => undefined);
    return { close: () => controller.abort() };
  },
};
const stream = (res) => res.writeHead(200, { 'content-type': 'text/event-stream' });
const answers = {
  'answered to the end': (res) => stream(res).end('data: paid\n\n'),
  broken: (res) => res.socket.destroy(),
  'status 500': (res) => res.writeHead(500).end(),
  '204 to the second': (res, payments) => (payments === 1 ? stream(res).end('data: paid\n\n') : res.writeHead(204).end()),
};
async function paymentsOf(client, answer, meanwhile = () => sleep(7000)) {
  let payments = 0;
  const server = http.createServer(async (req, res) => {
    for await (const _ of req);
    payments += 1;
    answer(res, payments);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const source = client(`http://127.0.0.1:${server.address().port}/`);
  await meanwhile(() => payments);
  source.close();
  server.close();
  server.closeAllConnections();
  return ['never', 'once', 'twice'][payments] ?? 'again and again';
}
const lines = Object.entries(clients).map(async ([name, client]) => {
  const ends = Object.entries(answers).map(async ([title, answer]) => `${title}, ${await paymentsOf(client, answer)}`);
  return `${name}: ${(await Promise.all(ends)).join('; ')}`;
});
for (const line of lines) console.log(await line);

const running = (res) => stream(res).write('data: begun\n\n');
const hiddenAndShown = async (payments) => {
  for (let tries = 0; payments() === 0 && tries < 100; tries += 1) await sleep(20);
  show(false);
  await sleep(200);
  show(true);
  await sleep(500);
};
const tab = await paymentsOf(clients['fetch-event-source'], running, hiddenAndShown);
console.log(`fetch-event-source, tab hidden and shown: ${tab}`);
process.exit();
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 60 node seen.mjs)
echo "as described"
