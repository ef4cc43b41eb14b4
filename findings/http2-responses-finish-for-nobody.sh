#!/usr/bin/env bash
# http2 of Node 20.20 (22.23 and 24.22 do the same): a response whose client has gone away is FINISHED, without an error.
#
# The compatibility API hands a handler of HTTP/1 the same two objects, and the handler asks them the same questions: did the
# response get out, or did the caller leave? By HTTP/1 `destroyed` says it, 'finish' does not come, and stream.finished() rejects.
# By HTTP/2 there is no `destroyed` (undefined, so the check reads as "still there"), 'finish' comes, writableFinished is true and
# finished() is fulfilled before anybody called end(); an end(body, callback) after that calls back without an error. What is
# marked as delivered on any of these was delivered to nobody. pipeline() rejects in both; `res.stream.destroyed` and `req.aborted`
# tell the truth. The documentation says of 'finish' that the response was sent, of 'close' that the stream ended before end():
# both come.
#
# Seen:
#   http1: destroyed true; finish 0, close 1; writableFinished false; finished() ERR_STREAM_PREMATURE_CLOSE; end() no callback
#   http1, pipeline(): ERR_STREAM_PREMATURE_CLOSE
#   http2: destroyed undefined; finish 1, close 1; writableFinished true; finished() fulfilled; end() called back, no error
#   http2, pipeline(): ERR_STREAM_PREMATURE_CLOSE
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >seen.mjs <<'JS'
import { once } from 'node:events';
import http from 'node:http';
import http2 from 'node:http2';
import { Readable } from 'node:stream';
import { finished, pipeline } from 'node:stream/promises';

const end = (promise) => promise.then(() => 'fulfilled', (error) => error.code);
const handlers = {
  // The client leaves after the head, while the handler works.
  '': async (req, res) => {
    const count = { finish: 0, close: 0 };
    for (const name of Object.keys(count)) res.on(name, () => (count[name] += 1));
    const out = end(finished(res));
    res.writeHead(201);
    res.write('{');
    await once(res, 'close');
    const told = await out;
    const state = `finish ${count.finish}, close ${count.close}; writableFinished ${res.writableFinished}; finished() ${told}`;
    const callback = await new Promise((resolve) => {
      setTimeout(resolve, 500, 'no callback');
      res.end('}', (error) => resolve(`called back, ${error ? error.code : 'no error'}`));
    });
    return `destroyed ${res.destroyed}; ${state}; end() ${callback}`;
  },
  // A body that is never complete before the client leaves.
  ', pipeline()': async (req, res) => {
    res.writeHead(201);
    const body = async function* () {
      for (let part = 0; part < 200; part += 1) {
        yield 'part of a body\n';
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    };
    return `${await end(pipeline(Readable.from(body()), res))}`;
  },
};
const transports = {
  http1: {
    serve: http.createServer,
    leave: (port) => {
      const request = http.get({ host: '127.0.0.1', port }, (response) => {
        response.on('error', () => undefined).once('data', () => request.destroy());
      });
      request.on('error', () => undefined);
    },
  },
  http2: {
    serve: http2.createServer,
    leave: (port) => {
      const request = http2.connect(`http://127.0.0.1:${port}`).request({ ':path': '/' });
      request.on('error', () => undefined).once('data', () => request.close(http2.constants.NGHTTP2_CANCEL));
    },
  },
};
for (const [name, { serve, leave }] of Object.entries(transports)) {
  for (const [kind, handler] of Object.entries(handlers)) {
    const seen = await new Promise((resolve) => {
      const server = serve((req, res) => void handler(req, res).then(resolve));
      server.listen(0, '127.0.0.1', () => leave(server.address().port));
    });
    console.log(`${name}${kind}: ${seen}`);
  }
}
process.exit();
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 60 node seen.mjs)
echo "as described"
