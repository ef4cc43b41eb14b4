#!/usr/bin/env bash
# GNU Wget 1.21.3 of Debian 12: a POST whose response is lost is sent TWENTY times.
#
# The manual says that --tries is 20 by default, of downloads, and names refused connections and 404 as what is not tried again. It
# does not say that --post-data and --method are repeated by the same rule: Wget waits a second longer each time and sends the body
# again, with the same header fields. A response ends it, also a 503 with Retry-After. curl sends the same POST once.
#
# Seen:
#   wget: exit 4, ledger 20
#   wget --method=POST: exit 4, ledger 20
#   wget --tries=1: exit 4, ledger 1
#   wget, 503 with Retry-After: exit 8, ledger 1
#   curl: exit 52, ledger 1
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
      if (req.method === 'GET') return res.end(String(ledger[path] ?? 0));
      ledger[path] = (ledger[path] ?? 0) + 1;
      if (path === 'busy') res.writeHead(503, { 'retry-after': '0' }).end();
      else req.socket.destroy();
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
  timeout 60 "$@" "$url/$path" >/dev/null || code=$?
  echo "$name: exit $code, ledger $(curl --silent "$url/$path")"
}
# Without --waitretry=0 the twenty take three minutes.
quick=(wget --no-config --quiet --output-document=- --waitretry=0)
diff <(sed -n 's/^#   //p' "$self") <(
  of 'wget' data "${quick[@]}" --post-data='{}'
  of 'wget --method=POST' method "${quick[@]}" --method=POST --body-data='{}'
  of 'wget --tries=1' once "${quick[@]}" --tries=1 --post-data='{}'
  of 'wget, 503 with Retry-After' busy "${quick[@]}" --post-data='{}'
  of 'curl' curl curl --silent --data '{}'
)
echo "as described"
