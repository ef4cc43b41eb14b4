#!/usr/bin/env bash
# mercadopago 3.6.1 (Mercado Pago's official client), Node 20.20: the idempotency key of one call is the key of all later ones that
# bring none, for other customers and other operations.
#
# A call without a key gets a new one, and keeps it over its retries, as one would guess. A call with `requestOptions.idempotencyKey`
# writes its options into the configuration, which it shares with every object that is made of it. The next payment that names no key
# goes out under the one before's, for which a service that knows keys has an answer: it is not made, and its caller reads another
# customer's receipt. A refund has the key of a payment. The id of a buyer's device session stays, too. So one call site that sends a
# key, in a process where others leave it to the client, is enough. The types say of requestOptions that they override the
# configuration per call; the readme shows a key in both places, with no word on how long it holds.
#
# Seen, of one configuration:
#   two payments without a key: two keys, payments made 2
#   a payment that is tried three times: one key, payments made 1
#   a payment with key-1, another without: key-1 key-1, payments made 1, the second reads "receipt of customer one"
#   a payment with key-1, another by a new Payment: key-1 key-1, payments made 1, the second reads "receipt of customer one"
#   a payment with key-1, a refund without: key-1 key-1, refunds made 0
#   a payment with a session's id, another without: session-1 session-1
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
echo '{"private":true,"type":"module"}' >package.json
npm install --silent --no-audit --no-fund --ignore-scripts mercadopago@3.6.1
cat >seen.mjs <<'JS'
import http from 'node:http';
import { MercadoPagoConfig, Payment, PaymentRefund } from 'mercadopago';

let state;
/** A service that makes what it is asked for once per key, and gives a key that it knows its first answer. */
const server = http.createServer(async (req, res) => {
  let body = '';
  for await (const chunk of req) body += chunk;
  const key = req.headers['x-idempotency-key'];
  state.requests.push({ key, session: req.headers['x-meli-session-id'] });
  if (state.failures > 0) {
    state.failures -= 1;
    res.writeHead(503).end('{}');
    return;
  }
  if (!state.answers.has(key)) {
    const kind = req.url.endsWith('/refunds') ? 'refunds' : 'payments';
    state[kind] += 1;
    state.answers.set(key, JSON.stringify({ description: `receipt of ${JSON.parse(body).description}` }));
  }
  res.writeHead(201, { 'content-type': 'application/json' }).end(state.answers.get(key));
});
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
// The client knows one address; what it sends is handed to the server here.
const send = globalThis.fetch;
globalThis.fetch = (url, init) => send(`http://127.0.0.1:${server.address().port}${new URL(url).pathname}`, init);

const clean = (failures = 0) => {
  state = { requests: [], answers: new Map(), payments: 0, refunds: 0, failures };
  return new MercadoPagoConfig({ accessToken: 'token', options: { initialDelay: 1 } });
};
const pay = (payment, customer, requestOptions) => payment.create({ body: { description: `customer ${customer}` }, requestOptions });
const keys = () => state.requests.map(({ key }) => key);
const distinct = () => (new Set(keys()).size === 1 ? 'one key' : 'two keys');
const made = () => `payments made ${state.payments}`;
const named = { idempotencyKey: 'key-1' };

let payment = new Payment(clean());
await pay(payment, 'one');
await pay(payment, 'two');
console.log(`two payments without a key: ${distinct()}, ${made()}`);

await pay(new Payment(clean(2)), 'one');
console.log(`a payment that is tried ${state.requests.length === 3 ? 'three times' : 'otherwise'}: ${distinct()}, ${made()}`);

payment = new Payment(clean());
await pay(payment, 'one', named);
let second = await pay(payment, 'two');
console.log(`a payment with key-1, another without: ${keys().join(' ')}, ${made()}, the second reads "${second.description}"`);

let configuration = clean();
await pay(new Payment(configuration), 'one', named);
second = await pay(new Payment(configuration), 'two');
console.log(`a payment with key-1, another by a new Payment: ${keys().join(' ')}, ${made()}, the second reads "${second.description}"`);

configuration = clean();
await pay(new Payment(configuration), 'one', named);
await new PaymentRefund(configuration).create({ payment_id: 1, body: { amount: 1 } });
console.log(`a payment with key-1, a refund without: ${keys().join(' ')}, refunds made ${state.refunds}`);

payment = new Payment(clean());
await pay(payment, 'one', { meliSessionId: 'session-1' });
await pay(payment, 'two');
const sessions = state.requests.map(({ session }) => session);
console.log(`a payment with a session's id, another without: ${sessions.join(' ')}`);
server.close();
process.exit();
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 60 node seen.mjs)
echo "as described"
