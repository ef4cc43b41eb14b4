#!/usr/bin/env bash
# apicache 1.6.3 and route-cache 0.7.1 with express 5.3.0, Node 20.20: put in front of all routes, they keep the response of a POST
# under its URL alone, and give it to the next POST with another body, and to a GET of the list.
#
# Neither looks at the method. The second order is never made, and its client reads a receipt: the first one's. apicache keeps a 500,
# too, so a failed order stays failed for as long as its duration says; route-cache does not. apicache-plus 2.3.1, a fork, has the
# same call and leaves a POST alone. What looks like idempotency in a test with one client is none: the body is not compared.
#
# Seen:
#   apicache: orders 1 of 2, the second reads "order 1 of 1 piece", a GET reads "order 1 of 1 piece", a failed POST runs 1 of 2
#   route-cache: orders 1 of 2, the second reads "order 1 of 1 piece", a GET reads "order 1 of 1 piece", a failed POST runs 2 of 2
#   apicache-plus: orders 2 of 2, the second reads "order 2 of 5 pieces", a GET reads "2 orders", a failed POST runs 2 of 2
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
echo '{"private":true,"type":"module"}' >package.json
npm install --silent --no-audit --no-fund express@5.3.0 apicache@1.6.3 route-cache@0.7.1 apicache-plus@2.3.1
cat >seen.mjs <<'JS'
import apicache from 'apicache';
import apicachePlus from 'apicache-plus';
import express from 'express';
import routeCache from 'route-cache';

const caches = {
  apicache: apicache.middleware('1 minute'),
  'route-cache': routeCache.cacheSeconds(60),
  'apicache-plus': apicachePlus('1 minute'),
};
for (const [name, cache] of Object.entries(caches)) {
  let orders = 0;
  let failures = 0;
  const app = express();
  app.use(express.json(), cache);
  app.post('/orders', (req, res) => {
    const { pieces } = req.body;
    orders += 1;
    res.status(201).send(`order ${orders} of ${pieces} ${pieces === 1 ? 'piece' : 'pieces'}`);
  });
  app.get('/orders', (_req, res) => res.send(`${orders} orders`));
  app.post('/failing', (_req, res) => {
    failures += 1;
    res.status(500).send('failed');
  });
  const server = app.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const url = `http://127.0.0.1:${server.address().port}`;
  const headers = { 'content-type': 'application/json' };
  const text = async (path, body) => {
    const sent = body === undefined ? {} : { method: 'POST', headers, body: JSON.stringify(body) };
    return (await fetch(url + path, sent)).text();
  };
  await text('/orders', { pieces: 1 });
  const second = await text('/orders', { pieces: 5 });
  const list = await text('/orders');
  for (const body of [{}, {}]) await text('/failing', body);
  console.log(
    `${name}: orders ${orders} of 2, the second reads "${second}", a GET reads "${list}", a failed POST runs ${failures} of 2`,
  );
}
process.exit();
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 60 node seen.mjs)
echo "as described"
