#!/usr/bin/env bash
# serverless-http 4.0.0 and @h4ad/serverless-adapter 4.4.0 on Express 5.3.0, Node 20.20: `headers` is filled, `rawHeaders` is empty.
#
# Both make an http.IncomingMessage of their own. Node fills `rawHeaders`, and from it `headersDistinct`, only in its parser, so
# both are empty there, without an error: code that reads raw lines to see a repeated field takes every field for absent.
# @codegenie/serverless-express 5.0.0 and @vendia/serverless-express 4.12.6 fill the raw list.
#
# Seen:
#   serverless-http: headers k-1, rawHeaders 0, headersDistinct undefined
#   h4ad: headers k-1, rawHeaders 0, headersDistinct undefined
#   codegenie: headers k-1, rawHeaders 8, headersDistinct k-1
#   vendia: headers k-1, rawHeaders 8, headersDistinct k-1
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
echo '{"private":true,"type":"module"}' >package.json
npm install --silent --no-audit --no-fund express@5.3.0 serverless-http@4.0.0 @h4ad/serverless-adapter@4.4.0 \
  @codegenie/serverless-express@5.0.0 @vendia/serverless-express@4.12.6
cat >seen.mjs <<'JS'
import codegenie from '@codegenie/serverless-express';
import { ServerlessAdapter } from '@h4ad/serverless-adapter';
import { ApiGatewayV2Adapter } from '@h4ad/serverless-adapter/adapters/aws';
import { ExpressFramework } from '@h4ad/serverless-adapter/frameworks/express';
import { DefaultHandler } from '@h4ad/serverless-adapter/handlers/default';
import { PromiseResolver } from '@h4ad/serverless-adapter/resolvers/promise';
import vendia from '@vendia/serverless-express';
import express from 'express';
import serverlessHttp from 'serverless-http';

const app = express();
app.post('/', (req, res) => {
  const distinct = req.headersDistinct['idempotency-key'];
  res.send(
    `headers ${req.headers['idempotency-key']}, rawHeaders ${req.rawHeaders.length}, headersDistinct ${distinct}`,
  );
});
const event = {
  version: '2.0',
  routeKey: '$default',
  rawPath: '/',
  rawQueryString: '',
  headers: { host: 'localhost', 'content-type': 'application/json', 'idempotency-key': 'k-1' },
  requestContext: {
    http: { method: 'POST', path: '/', sourceIp: '127.0.0.1', protocol: 'HTTP/1.1' },
    domainName: 'localhost',
    stage: '$default',
    timeEpoch: 0,
  },
  body: '{}',
  isBase64Encoded: false,
};
const h4ad = ServerlessAdapter.new(app)
  .setFramework(new ExpressFramework())
  .setHandler(new DefaultHandler())
  .setResolver(new PromiseResolver())
  .addAdapter(new ApiGatewayV2Adapter())
  .build();
const ways = {
  'serverless-http': serverlessHttp(app),
  h4ad,
  codegenie: codegenie.configure({ app }),
  vendia: (vendia.configure ?? vendia.default)({ app }),
};
for (const [name, handler] of Object.entries(ways)) {
  console.log(`${name}: ${(await handler(event, {})).body}`);
}
process.exit();
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 60 node seen.mjs)
echo "as described"
