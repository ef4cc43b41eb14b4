#!/usr/bin/env bash
# Deno 2.9.6: a POST of fetch() on a connection that has served a request before is sent again when it is closed before the
# response, and the caller gets 200. Node 20.20 and Bun 1.4.5 send it once and reject.
#
# The rule is curl's (see curl-repeats-a-post-on-a-used-connection.sh): a used connection that ends without a byte is taken for one
# that had gone cold, though the server has read the request and may have done what it asks. The first POST of a process, which is
# what a test sends, goes out once, so the same code pays twice only after it was moved to Deno, on the day that a server is
# restarted. Where the second connection ends, too, the caller gets an error for two payments. A body that is a stream is sent once,
# as is any POST behind a request with "Connection: close".
#
# Seen:
#   Node: first request TypeError, ledger 1
#   Node: used connection TypeError, ledger 1
#   Bun: first request TypeError, ledger 1
#   Bun: used connection TypeError, ledger 1
#   Deno: first request TypeError, ledger 1
#   Deno: used connection 200, ledger 2
#   Deno: used connection, closed again TypeError, ledger 2
#   Deno: used connection, body a stream TypeError, ledger 1
#   Deno: behind "Connection: close" TypeError, ledger 1
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
echo '{"private":true,"type":"module"}' >package.json
npm install --silent --no-audit --no-fund --ignore-scripts @deno/linux-x64-glibc@2.9.6 @oven/bun-linux-x64@1.4.5
cat >client.mjs <<'JS'
const [base, runtime] = process.argv.slice(2);
const post = (path, init) => fetch(`${base}${path}`, { method: 'POST', body: '{}', ...init });
const warm = (init) => post('/warm', init).then((response) => response.text());
async function pay(name, path, init) {
  const end = await post(path, init).then(
    (response) => response.status,
    (error) => error.name,
  );
  const ledger = await (await fetch(`${base}/ledger${path}`, { headers: { connection: 'close' } })).text();
  console.log(`${runtime}: ${name} ${end}, ledger ${ledger}`);
}
await pay('first request', '/first');
await warm();
await pay('used connection', '/used');
if (runtime === 'Deno') {
  await warm();
  await pay('used connection, closed again', '/again');
  await warm();
  await pay('used connection, body a stream', '/stream', { body: new Blob(['{}']).stream(), duplex: 'half' });
  await warm({ headers: { connection: 'close' } });
  await pay('behind "Connection: close"', '/closed');
}
JS
cat >seen.mjs <<'JS'
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import http from 'node:http';
import { promisify } from 'node:util';

const runtimes = {
  Node: [process.execPath],
  Bun: ['node_modules/@oven/bun-linux-x64/bin/bun'],
  Deno: ['node_modules/@deno/linux-x64-glibc/deno', 'run', '--quiet', '--allow-net'],
};
for (const [runtime, [program, ...words]] of Object.entries(runtimes)) {
  const ledger = {};
  const server = http.createServer(async (req, res) => {
    for await (const _ of req);
    const { url } = req;
    if (url === '/warm') return res.end();
    if (url.startsWith('/ledger')) return res.end(String(ledger[url.slice('/ledger'.length)]));
    ledger[url] = (ledger[url] ?? 0) + 1;
    // The payment is made; its response is lost.
    if (ledger[url] === 1 || url === '/again') return req.socket.destroy();
    return res.end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const base = `http://127.0.0.1:${server.address().port}`;
  const { stdout } = await promisify(execFile)(program, [...words, 'client.mjs', base, runtime]);
  process.stdout.write(stdout);
  server.close();
  server.closeAllConnections();
}
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 60 node seen.mjs)
echo "as described"
