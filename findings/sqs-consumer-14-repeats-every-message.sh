#!/usr/bin/env bash
# sqs-consumer 14.2.8 and 13.0.0 with @aws-sdk/client-sqs 3.1175.0, Node 20.20: with 14, a handler that returns nothing has not
# handled its message, and is given it again and again.
#
# Up to 13, `handleMessage: async (message) => { … }` deletes the message when it is fulfilled, and leaves it when it throws; the
# first example of the readme is written like that, in 14 as well. 14 deletes what the handler returns. Without a `return` there is
# no error and no event of one: each message comes back after the visibility timeout, its payment is made again, until the queue
# puts it to the dead letters as one that nobody could handle. What Lambda wants for "all done" (no batchItemFailures) deletes none
# in both. Further down the readme of 14 says what has to be returned, and TypeScript passes a function without a return.
# `alwaysAcknowledge` deletes whatever is returned.
#
# Seen, within three visibility timeouts:
#   13.0.0, returns nothing: handled once, deleted true, errors 0
#   14.2.8, returns nothing: handled three times, deleted false, errors 0
#   14.2.8, returns the message: handled once, deleted true, errors 0
#   14.2.8, alwaysAcknowledge: handled once, deleted true, errors 0
#   13.0.0, batch, returns nothing: handled once, deleted true, errors 0
#   14.2.8, batch, returns nothing: handled three times, deleted false, errors 0
#   13.0.0, batch, returns no failures: handled three times, deleted false, errors 0
#   14.2.8, batch, returns no failures: handled three times, deleted false, errors 0
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
echo '{"private":true,"type":"module"}' >package.json
npm install --silent --no-audit --no-fund --ignore-scripts older@npm:sqs-consumer@13.0.0 newer@npm:sqs-consumer@14.2.8 \
  @aws-sdk/client-sqs@3.1175.0
cat >seen.mjs <<'JS'
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import http from 'node:http';
import { SQSClient } from '@aws-sdk/client-sqs';
import { Consumer as Newer } from 'newer';
import { Consumer as Older } from 'older';

const Body = 'pay order 1';
const message = { MessageId: '1', ReceiptHandle: '1', Body, MD5OfBody: createHash('md5').update(Body).digest('hex') };

/** A queue of one message, which is visible to three polls at most, as after three visibility timeouts, unless it is deleted. */
async function queue() {
  const state = { deleted: false, polls: 0, end: undefined };
  const ended = new Promise((resolve) => (state.end = resolve));
  const server = http.createServer(async (req, res) => {
    for await (const _ of req);
    const answer = (value) => res.writeHead(200, { 'content-type': 'application/x-amz-json-1.0' }).end(JSON.stringify(value));
    if (!req.headers['x-amz-target'].endsWith('ReceiveMessage')) {
      state.deleted = true;
      return answer({ Successful: [{ Id: '1' }], Failed: [] });
    }
    state.polls += 1;
    if (state.polls > 3) state.end();
    return answer(state.deleted || state.polls > 3 ? {} : { Messages: [message] });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { state, ended, server, url: `http://127.0.0.1:${server.address().port}` };
}
async function seen(name, Consumer, options) {
  const { state, ended, server, url } = await queue();
  const sqs = new SQSClient({ region: 'eu-west-1', endpoint: url, credentials: { accessKeyId: 'id', secretAccessKey: 'secret' } });
  let handled = 0;
  let errors = 0;
  const counting = Object.entries(options).map(([option, value]) => {
    if (typeof value !== 'function') return [option, value];
    const handle = (given) => {
      handled += 1;
      return value(given);
    };
    return [option, handle];
  });
  const consumer = Consumer.create({ queueUrl: `${url}/1/payments`, sqs, pollingWaitTimeMs: 20, ...Object.fromEntries(counting) });
  for (const event of ['error', 'processing_error', 'timeout_error']) consumer.on(event, () => (errors += 1));
  consumer.start();
  await ended;
  consumer.stop({ abort: true });
  server.closeAllConnections();
  server.close();
  console.log(`${name}: handled ${['never', 'once', 'twice', 'three times'][handled]}, deleted ${state.deleted}, errors ${errors}`);
}
const nothing = async () => undefined;
const noFailures = async () => ({ batchItemFailures: [] });
await seen('13.0.0, returns nothing', Older, { handleMessage: nothing });
await seen('14.2.8, returns nothing', Newer, { handleMessage: nothing });
await seen('14.2.8, returns the message', Newer, { handleMessage: async (given) => given });
await seen('14.2.8, alwaysAcknowledge', Newer, { handleMessage: nothing, alwaysAcknowledge: true });
await seen('13.0.0, batch, returns nothing', Older, { handleMessageBatch: nothing });
await seen('14.2.8, batch, returns nothing', Newer, { handleMessageBatch: nothing });
await seen('13.0.0, batch, returns no failures', Older, { handleMessageBatch: noFailures });
await seen('14.2.8, batch, returns no failures', Newer, { handleMessageBatch: noFailures });
process.exit();
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 60 node --no-warnings seen.mjs)
echo "as described"
