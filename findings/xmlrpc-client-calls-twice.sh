#!/usr/bin/env bash
# Python 3.11 xmlrpc.client (Debian 12): one call of a ServerProxy is TWO when the connection is closed before the response.
#
# Its transport repeats a request once, to get over a kept connection that has gone cold, and does not ask whether the connection
# had been used before: the first call of a new proxy is sent again, too. A method that ran and lost its response runs a second
# time, and the caller gets the result of that one. There is no option; a Transport whose request() is single_request() sends a
# call once. The reference page does not mention repetition. http.client, below it, sends a POST once.
#
# Seen:
#   first call: payment 2, ledger 2
#   later call: payment 2, ledger 2
#   fault: Fault, ledger 1
#   single_request: RemoteDisconnected, ledger 1
#   http.client: RemoteDisconnected, ledger 1
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cat >"$dir/seen.py" <<'PY'
import http.client, socketserver, threading, xmlrpc.client
from http.server import BaseHTTPRequestHandler

ledger = {}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        (operation,), method = xmlrpc.client.loads(self.rfile.read(int(self.headers["content-length"])))
        if method == "pay":
            ledger[operation] = ledger.get(operation, 0) + 1
            if ledger[operation] == 1 and operation != "fault":
                # The payment is made; its response is lost.
                self.close_connection = True
                return
        result = xmlrpc.client.Fault(1, "busy") if operation == "fault" else (ledger.get(operation, 0),)
        body = xmlrpc.client.dumps(result, methodresponse=True).encode()
        self.send_response(200)
        self.send_header("content-type", "text/xml")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True


class Once(xmlrpc.client.Transport):
    def request(self, host, handler, request_body, verbose=False):
        return self.single_request(host, handler, request_body, verbose)


server = Server(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
port = server.server_address[1]


def proxy(transport=None):
    return xmlrpc.client.ServerProxy(f"http://127.0.0.1:{port}/", transport)


def by_http_client(operation):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("POST", "/", xmlrpc.client.dumps((operation,), "pay"))
    connection.getresponse()


used = proxy()
used.look("used")
ways = {
    "first call": proxy().pay,
    "later call": used.pay,
    "fault": proxy().pay,
    "single_request": proxy(Once()).pay,
    "http.client": by_http_client,
}
for name, pay in ways.items():
    try:
        end = f"payment {pay(name)}"
    except Exception as error:
        end = type(error).__name__
    print(f"{name}: {end}, ledger {ledger[name]}")
PY
diff <(sed -n 's/^#   //p' "$self") <(timeout 60 /usr/bin/python3 "$dir/seen.py")
echo "as described"
