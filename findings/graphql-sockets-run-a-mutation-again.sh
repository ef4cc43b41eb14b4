#!/usr/bin/env bash
# graphql-ws 6.4.2 with ws 8.23.0, graphql-sse 2.6.1, graphql 16.15.0, Node 20.20: as their clients come, a mutation that is running
# when the connection ends is sent again on the next one.
#
# Both clients reconnect by themselves and take up what had not been completed: right for a subscription, and done alike for a
# mutation that the server may have finished. A break of the network does it, and with graphql-ws also the orderly end (1001, "going
# away") of a server that makes way for its next version, so that each deployment may pay twice. The caller gets one result, the
# last one's. Other close codes (here 1011) are errors without a repetition. `retryAttempts: 0` ends it, and the renewal of
# subscriptions with it. tRPC 11.25.2, which renews subscriptions over a WebSocket, too, rejects the mutation. What retryAttempts
# says of itself is how often the client tries to reconnect; that mutations are run again was not found there, nor in the readmes.
#
# Seen, where the connection ends while the first try runs:
#   graphql-ws, broken: result 2, run 2
#   graphql-ws, 1001: result 2, run 2
#   graphql-ws, 1011: rejected, run 1
#   graphql-ws, retryAttempts 0, broken: rejected, run 1
#   graphql-sse, broken: result 2, run 2
#   graphql-sse, retryAttempts 0, broken: rejected, run 1
#   tRPC, broken: rejected, run 1
#   tRPC, 1001: rejected, run 1
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
echo '{"private":true,"type":"module"}' >package.json
npm install --silent --no-audit --no-fund --ignore-scripts graphql-ws@6.4.2 ws@8.23.0 graphql-sse@2.6.1 graphql@16.15.0 \
  @trpc/server@11.25.2 @trpc/client@11.25.2
cat >seen.mjs <<'JS'
import http from 'node:http';
import { createTRPCClient, createWSClient, wsLink } from '@trpc/client';
import { initTRPC } from '@trpc/server';
import { applyWSSHandler } from '@trpc/server/adapters/ws';
import { buildSchema } from 'graphql';
import { createClient as createSseClient } from 'graphql-sse';
import { createHandler } from 'graphql-sse/lib/use/http';
import { createClient as createWsClient } from 'graphql-ws';
import { useServer } from 'graphql-ws/use/ws';
import { WebSocket, WebSocketServer } from 'ws';

/** The mutation: its first run is done, and the connection ends before its result is out. */
function mutation() {
  const state = { runs: 0, end: undefined };
  const run = () => {
    state.runs += 1;
    if (state.runs > 1) return state.runs;
    state.end();
    return new Promise(() => undefined);
  };
  const schema = buildSchema('type Query { payments: Int } type Mutation { pay: Int }');
  schema.getMutationType().getFields().pay.resolve = run;
  return { state, run, schema };
}
const listening = async (server) => {
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return server.address().port;
};
const socketsOf = (server, state, code) => {
  const sockets = new WebSocketServer({ server });
  sockets.on('connection', (socket) => {
    state.end = () => (code === undefined ? socket.terminate() : socket.close(code));
  });
  return sockets;
};
const resultOf = (client) =>
  new Promise((resolve, reject) => {
    let result;
    const next = ({ data }) => (result = data.pay);
    client.subscribe({ query: 'mutation { pay }' }, { next, error: reject, complete: () => resolve(result) });
  });

async function byWs(options, code) {
  const { state, schema } = mutation();
  const server = http.createServer();
  useServer({ schema }, socketsOf(server, state, code));
  const url = `ws://127.0.0.1:${await listening(server)}`;
  return [state, resultOf(createWsClient({ url, webSocketImpl: WebSocket, ...options }))];
}
async function bySse(options) {
  const { state, schema } = mutation();
  const handler = createHandler({ schema });
  const server = http.createServer((req, res) => {
    state.end = () => req.socket.destroy();
    void handler(req, res);
  });
  return [state, resultOf(createSseClient({ url: `http://127.0.0.1:${await listening(server)}`, ...options }))];
}
async function byTrpc(code) {
  const { state, run } = mutation();
  const trpc = initTRPC.create();
  const server = http.createServer();
  applyWSSHandler({ wss: socketsOf(server, state, code), router: trpc.router({ pay: trpc.procedure.mutation(run) }) });
  const client = createWSClient({ url: `ws://127.0.0.1:${await listening(server)}`, WebSocket });
  return [state, createTRPCClient({ links: [wsLink({ client })] }).pay.mutate()];
}
const ways = {
  'graphql-ws, broken': () => byWs(),
  'graphql-ws, 1001': () => byWs({}, 1001),
  'graphql-ws, 1011': () => byWs({}, 1011),
  'graphql-ws, retryAttempts 0, broken': () => byWs({ retryAttempts: 0 }),
  'graphql-sse, broken': () => bySse(),
  'graphql-sse, retryAttempts 0, broken': () => bySse({ retryAttempts: 0 }),
  'tRPC, broken': () => byTrpc(),
  'tRPC, 1001': () => byTrpc(1001),
};
const lines = Object.entries(ways).map(async ([name, way]) => {
  const [state, result] = await way();
  const end = await result.then(
    (value) => `result ${value}`,
    () => 'rejected',
  );
  return `${name}: ${end}, run ${state.runs}`;
});
for (const line of lines) console.log(await line);
process.exit();
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 60 node seen.mjs 2>errors.log || cat errors.log)
echo "as described"
