#!/usr/bin/env bash
# serverless-http 4.0.0, @codegenie/serverless-express 5.0.0, @vendia/serverless-express 4.12.6 on Express 5.3.0, Node 20.20:
# their stand-in for a response ignores the second argument of `end(text, encoding)`, and text that is not UTF-8 is destroyed.
#
# Node's own response sends the two bytes "OK" for `end('4f4b', 'hex')`. Below these adapters the client gets the four characters.
# Bytes whose type names another charset are decoded as UTF-8 all the same and marked as text (isBase64Encoded false), so that
# each byte above 0x7f becomes U+FFFD. A library that writes a short body as a Latin-1 string, to send head and body in one
# piece, breaks every letter that is not ASCII here.
#
# Seen:
#   node: hex "OK", latin1 bytes 43 61 66 e9
#   serverless-http: hex "4f4b", latin1 bytes 43 61 66 ef bf bd
#   codegenie: hex "4f4b", latin1 bytes 43 61 66 ef bf bd
#   vendia: hex "4f4b", latin1 bytes 43 61 66 ef bf bd
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
echo '{"private":true,"type":"module"}' >package.json
npm install --silent --no-audit --no-fund express@5.3.0 serverless-http@4.0.0 @codegenie/serverless-express@5.0.0 \
  @vendia/serverless-express@4.12.6
cat >seen.mjs <<'JS'
import codegenie from '@codegenie/serverless-express';
import vendia from '@vendia/serverless-express';
import express from 'express';
import serverlessHttp from 'serverless-http';

const app = express();
app.post('/hex', (_req, res) => res.type('text/plain').end('4f4b', 'hex'));
app.post('/latin1', (_req, res) => res.type('text/plain; charset=latin1').end(Buffer.from('Café', 'latin1')));

const event = (path) => ({
  version: '2.0',
  routeKey: '$default',
  rawPath: path,
  rawQueryString: '',
  headers: { host: 'localhost', 'content-type': 'application/json' },
  requestContext: {
    http: { method: 'POST', path, sourceIp: '127.0.0.1', protocol: 'HTTP/1.1' },
    domainName: 'localhost',
    stage: '$default',
    timeEpoch: 0,
  },
  body: '{}',
  isBase64Encoded: false,
});
const bytesOf = ({ body, isBase64Encoded }) => Buffer.from(body, isBase64Encoded ? 'base64' : 'utf8');
const invoked = (handler) => async (path) => bytesOf(await handler(event(path), {}));
const server = await new Promise((resolve) => {
  const started = app.listen(0, '127.0.0.1', () => resolve(started));
});
const ways = {
  node: async (path) => {
    const url = `http://127.0.0.1:${server.address().port}${path}`;
    return Buffer.from(await (await fetch(url, { method: 'POST' })).arrayBuffer());
  },
  'serverless-http': invoked(serverlessHttp(app)),
  codegenie: invoked(codegenie.configure({ app })),
  vendia: invoked((vendia.configure ?? vendia.default)({ app })),
};
for (const [name, post] of Object.entries(ways)) {
  const latin1 = (await post('/latin1')).toString('hex').match(/../g).join(' ');
  console.log(`${name}: hex "${await post('/hex')}", latin1 bytes ${latin1}`);
}
process.exit();
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 60 node seen.mjs)
echo "as described"
