#!/usr/bin/env bash
# curl 7.88.1 (libcurl of Debian 12): a POST on a connection that has served a request before IS sent again when it is closed before
# the response, without --retry.
#
# The same POST on a connection of its own is sent once and fails (52, empty reply). libcurl takes a used connection that ends before
# the first byte of a response for one that had gone cold, whatever the method and although the server has read the request; it
# connects anew, sends all of it once more and reports success. A program that keeps a libcurl handle doubles any operation but the
# first whose response is lost. The manual speaks of repetition with --retry only, which is off. "Connection: close" prevents it.
#
# Seen:
#   own connection: exit 52, ledger 1
#   used connection: exit 0, ledger 2
#   used by a GET: exit 0, ledger 2
#   Connection: close before: exit 52, ledger 1
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
server=
trap '[ -z "$server" ] || { kill "$server" 2>/dev/null; wait "$server" 2>/dev/null; } ; rm -rf "$dir"' EXIT
cd "$dir"
cat >server.mjs <<'JS'
import http from 'node:http';

const ledger = {};
http
  .createServer((req, res) => {
    req.resume();
    req.on('end', () => {
      const path = req.url.slice(1);
      if (path === 'hello') return res.end('hello');
      if (req.method === 'GET') return res.end(String(ledger[path] ?? 0));
      ledger[path] = (ledger[path] ?? 0) + 1;
      // The work of the first one is done; its response is lost.
      if (ledger[path] === 1) req.socket.destroy();
      else res.writeHead(201).end();
    });
  })
  .listen(0, '127.0.0.1', function () {
    console.log(this.address().port);
  });
JS
mkfifo port
node server.mjs >port &
server=$!
read -r port <port
url=http://127.0.0.1:$port
of() {
  local name=$1 path=$2 code=0
  shift 2
  timeout 20 curl --silent --output /dev/null "$@" --data '{}' --header 'Idempotency-Key: k' "$url/$path" || code=$?
  echo "$name: exit $code, ledger $(curl --silent "$url/$path")"
}
hello=(--data '{}' "$url/hello" --next --silent --output /dev/null)
diff <(sed -n 's/^#   //p' "$self") <(
  of 'own connection' own
  of 'used connection' used "${hello[@]}"
  of 'used by a GET' get "$url/hello" --next --silent --output /dev/null
  of 'Connection: close before' close --header 'Connection: close' "${hello[@]}"
)
echo "as described"
