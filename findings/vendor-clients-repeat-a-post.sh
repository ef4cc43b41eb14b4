#!/usr/bin/env bash
# Official clients of eight services, Node 20.20: as they come, most send a POST again after a lost response, and half of those
# without a key by which the service could know it.
#
# lithic 0.145.0 (issues cards) and openai 6.49.0 come from the same generator as modern-treasury 3.3.0, and only that one adds an
# Idempotency-Key by itself, the same for all tries. The three also repeat a 409, as does stripe 23.1.0. @octokit/plugin-retry 8.1.1
# with @octokit/core 7.0.8 repeats every method and nearly every status, so one issue becomes four. @aws-sdk/client-sqs 3.1175.0
# sends a message to a standard queue three times. square 46.0.0 repeats a status, but no closed connection; its key is a field of
# the body, which the caller has to give. resend 6.38.0 repeats nothing.
#
# Seen:
#   closed before the response: lithic 3 (no key), openai 3 (no key), octokit 4 (no key), sqs 3 (no key), stripe 3 (one key), modern-treasury 3 (one key), square 1, resend 1
#   status 500: lithic 3 (no key), openai 3 (no key), octokit 4 (no key), sqs 3 (no key), stripe 3 (one key), modern-treasury 3 (one key), square 3 (one key), resend 1
#   status 409: lithic 3 (no key), openai 3 (no key), octokit 4 (no key), sqs 1, stripe 3 (one key), modern-treasury 3 (one key), square 1, resend 1
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
echo '{"private":true,"type":"module"}' >package.json
npm install --silent --no-audit --no-fund --ignore-scripts lithic@0.145.0 openai@6.49.0 modern-treasury@3.3.0 stripe@23.1.0 \
  @octokit/core@7.0.8 @octokit/plugin-retry@8.1.1 @aws-sdk/client-sqs@3.1175.0 square@46.0.0 resend@6.38.0
cat >seen.mjs <<'JS'
import http from 'node:http';
import { SendMessageCommand, SQSClient } from '@aws-sdk/client-sqs';
import { Octokit } from '@octokit/core';
import { retry } from '@octokit/plugin-retry';
import Lithic from 'lithic';
import ModernTreasury from 'modern-treasury';
import OpenAI from 'openai';
import { Resend } from 'resend';
import { SquareClient } from 'square';
import Stripe from 'stripe';

const log = { debug() {}, info() {}, warn() {}, error() {} };
const credentials = { accessKeyId: 'id', secretAccessKey: 'secret' };
const order = { type: 'ach', amount: 1, direction: 'credit', originating_account_id: 'account' };
const clients = {
  lithic: (baseURL) => new Lithic({ apiKey: 'key', baseURL }).cards.create({ type: 'VIRTUAL' }),
  openai: (baseURL) => new OpenAI({ apiKey: 'key', baseURL }).chat.completions.create({ model: 'model', messages: [] }),
  octokit: (baseUrl) => new (Octokit.plugin(retry))({ baseUrl, log }).request('POST /repos/owner/name/issues', { title: 'title' }),
  sqs: (endpoint) =>
    new SQSClient({ region: 'eu-west-1', endpoint, credentials }).send(
      new SendMessageCommand({ QueueUrl: `${endpoint}/1/queue`, MessageBody: 'message' }),
    ),
  stripe: (base) => {
    const { hostname: host, port } = new URL(base);
    return new Stripe('key', { host, port, protocol: 'http' }).paymentIntents.create({ amount: 1, currency: 'eur' });
  },
  'modern-treasury': (baseURL) => new ModernTreasury({ apiKey: 'key', organizationID: 'name', baseURL }).paymentOrders.create(order),
  square: (baseUrl) =>
    new SquareClient({ token: 'token', baseUrl }).payments.create({
      sourceId: 'source',
      idempotencyKey: 'of the caller',
      amountMoney: { amount: 1n, currency: 'USD' },
    }),
  resend: (baseUrl) => new Resend('re_key', { baseUrl }).emails.send({ from: 'a@example.org', to: 'b@example.org', subject: 's', html: 'h' }),
};
const status = (code) => (_req, res) => res.writeHead(code, { 'content-type': 'application/json' }).end('{"error":{"message":"unknown"}}');
const answers = { 'closed before the response': (req) => req.socket.destroy(), 'status 500': status(500), 'status 409': status(409) };

/** How often a service gets what was sent once, and with which keys. */
async function countOf(send, answer) {
  const keys = [];
  const server = http.createServer(async (req, res) => {
    let body = '';
    for await (const chunk of req) body += chunk;
    keys.push(req.headers['idempotency-key'] ?? /"idempotency_key":"[^"]*"/.exec(body)?.[0]);
    answer(req, res);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  await send(`http://127.0.0.1:${server.address().port}`).catch(() => undefined);
  server.close();
  const distinct = new Set(keys);
  const key = distinct.size > 1 ? 'other keys' : keys[0] === undefined ? 'no key' : 'one key';
  return keys.length === 1 ? '1' : `${keys.length} (${key})`;
}

for (const [name, answer] of Object.entries(answers)) {
  const counts = Object.entries(clients).map(async ([client, send]) => `${client} ${await countOf(send, answer)}`);
  console.log(`${name}: ${(await Promise.all(counts)).join(', ')}`);
}
process.exit();
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 120 node seen.mjs 2>errors.log || cat errors.log)
echo "as described"
