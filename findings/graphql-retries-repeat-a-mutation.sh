#!/usr/bin/env bash
# @apollo/client 4.3.8 and @urql/core 6.0.3 with @urql/exchange-retry 2.0.0, Node 20.20: with their retries as they come, a mutation
# is sent again although the server may have done it, and also where the server has answered.
#
# RetryLink's and retryExchange's default condition is an error of the network, whatever the operation is. For both, that is any
# answer that is no result of GraphQL: 409 and 500 in JSON, and a page of HTML with status 200. Apollo sends it five times in all,
# urql twice. An answer with `errors`, also with status 422, is not repeated. Neither client repeats without its retries.
#
# Seen:
#   closed before the response: Apollo 1, with RetryLink 5, urql 1, with retryExchange 2
#   500 in JSON: Apollo 1, with RetryLink 5, urql 1, with retryExchange 2
#   409 in JSON: Apollo 1, with RetryLink 5, urql 1, with retryExchange 2
#   200 in HTML: Apollo 1, with RetryLink 5, urql 1, with retryExchange 2
#   422 with errors: Apollo 1, with RetryLink 1, urql 1, with retryExchange 1
#   200 with errors: Apollo 1, with RetryLink 1, urql 1, with retryExchange 1
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
echo '{"private":true,"type":"module"}' >package.json
npm install --silent --no-audit --no-fund \
  @apollo/client@4.3.8 graphql@16.15.0 rxjs@7.8.2 @urql/core@6.0.3 @urql/exchange-retry@2.0.0
cat >seen.mjs <<'JS'
import http from 'node:http';
import { ApolloClient, from, gql, HttpLink, InMemoryCache } from '@apollo/client';
import { RetryLink } from '@apollo/client/link/retry';
import { Client, fetchExchange } from '@urql/core';
import { retryExchange } from '@urql/exchange-retry';

let requests = 0;
let answer;
const server = http.createServer((req, res) => {
  req.resume();
  req.on('end', () => {
    requests += 1;
    answer(res, req);
  });
});
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const url = `http://127.0.0.1:${server.address().port}/`;
const mutation = gql('mutation Pay { pay { id } }');
const apollo = (...links) =>
  new ApolloClient({ cache: new InMemoryCache(), link: from([...links, new HttpLink({ uri: url })]) }).mutate({ mutation });
const urql = (...exchanges) =>
  new Client({ url, exchanges: [...exchanges, fetchExchange] }).mutation(mutation, {}).toPromise();
// Only the waits are shorter than they come.
const clients = {
  Apollo: () => apollo(),
  'with RetryLink': () => apollo(new RetryLink({ delay: { initial: 1, max: 5 } })),
  urql: () => urql(),
  'with retryExchange': () => urql(retryExchange({ initialDelayMs: 1, maxDelayMs: 5 })),
};
const json = { 'content-type': 'application/json' };
const errors = '{"errors":[{"message":"declined"}]}';
const answers = {
  'closed before the response': (_res, req) => req.socket.destroy(),
  '500 in JSON': (res) => res.writeHead(500, json).end('{"message":"unknown"}'),
  '409 in JSON': (res) => res.writeHead(409, json).end('{"message":"in progress"}'),
  '200 in HTML': (res) => res.writeHead(200, { 'content-type': 'text/html' }).end('<p>'),
  '422 with errors': (res) => res.writeHead(422, { 'content-type': 'application/graphql-response+json' }).end(errors),
  '200 with errors': (res) => res.writeHead(200, json).end(errors),
};
for (const [name, of] of Object.entries(answers)) {
  answer = of;
  const counts = [];
  for (const [client, send] of Object.entries(clients)) {
    requests = 0;
    await send().catch(() => undefined);
    counts.push(`${client} ${requests}`);
  }
  console.log(`${name}: ${counts.join(', ')}`);
}
process.exit();
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 60 node seen.mjs)
echo "as described"
