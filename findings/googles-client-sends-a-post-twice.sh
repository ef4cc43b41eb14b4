#!/usr/bin/env bash
# google-api-python-client 2.201.0 on httplib2 0.22.0, Python 3.11.7: with num_retries=0, its default, a POST whose response is lost
# is sent again, and the caller gets the second one's result.
#
# The method's documentation says that it is up to num_retries how often a request is repeated, and that 0 sends it once. Below it,
# httplib2 takes a connection that ends before the status line for one that had gone cold, without a look at whether it had been
# used before or at the method, and sends the request again. So an event is inserted, a mail sent or a row appended twice, by the
# first call of a new client as well. A second loss is an error: two copies, and none that the caller knows of. A status is not
# repeated. http.client, below httplib2, sends a POST once; requests 2.34.2 does, too.
#
# Seen:
#   Google's client, response lost: event 2, sent 2
#   Google's client, lost on a used connection: event 2, sent 2
#   Google's client, both lost: RemoteDisconnected, sent 2
#   Google's client, 503: HttpError, sent 1
#   httplib2, response lost: event 2, sent 2
#   requests, response lost: ConnectionError, sent 1
#   http.client, response lost: RemoteDisconnected, sent 1
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check --retries 0 google-api-python-client==2.201.0 httplib2==0.22.0 \
  requests==2.34.2 2>pip.log || { cat pip.log; exit 1; }
cat >seen.py <<'PY'
import http.client, json, socketserver, threading
from http.server import BaseHTTPRequestHandler

import httplib2, requests
from googleapiclient.discovery import build_from_document

sent = {}
# What happens to the first, the second, … request of a calendar; the last one stands for all that follow.
ANSWERS = {"lost": ["lost", 200], "used": ["lost", 200], "both": ["lost"], "refused": [503], "warm": [200]}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        name, answers = self.path.split("?")[0], ANSWERS[self.path.split("?")[0].split("/")[-1]]
        sent[name] = sent.get(name, 0) + 1
        answer = answers[min(sent[name], len(answers)) - 1]
        if answer == "lost":
            # The event is inserted; its response is lost.
            self.close_connection = True
            return
        body = json.dumps({"id": sent[name]}).encode()
        self.send_response(answer)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True


server = Server(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
base = f"http://127.0.0.1:{server.server_address[1]}/"
insert = {
    "id": "calendar.events.insert",
    "path": "{calendar}",
    "httpMethod": "POST",
    "parameters": {"calendar": {"type": "string", "location": "path", "required": True}},
    "parameterOrder": ["calendar"],
    "request": {"$ref": "Event"},
    "response": {"$ref": "Event"},
}
document = {
    "kind": "discovery#restDescription",
    "name": "calendar",
    "version": "v1",
    "rootUrl": base,
    "servicePath": "google/",
    "baseUrl": f"{base}google/",
    "schemas": {"Event": {"id": "Event", "type": "object", "properties": {"id": {"type": "integer"}}}},
    "resources": {"events": {"methods": {"insert": insert}}},
}


def google(calendar, events=None):
    events = events or build_from_document(document, http=httplib2.Http()).events()
    return events.insert(calendar=calendar, body={}).execute(num_retries=0)["id"]


def google_used(calendar):
    events = build_from_document(document, http=httplib2.Http()).events()
    google("warm", events)
    return google(calendar, events)


def by_httplib2(calendar):
    return json.loads(httplib2.Http().request(f"{base}httplib2/{calendar}", "POST", body="{}")[1])["id"]


def by_requests(calendar):
    return requests.post(f"{base}requests/{calendar}", data="{}").json()["id"]


def by_http_client(calendar):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1])
    connection.request("POST", f"/http.client/{calendar}", "{}")
    return json.loads(connection.getresponse().read())["id"]


ways = {
    "Google's client, response lost": (google, "google", "lost"),
    "Google's client, lost on a used connection": (google_used, "google", "used"),
    "Google's client, both lost": (google, "google", "both"),
    "Google's client, 503": (google, "google", "refused"),
    "httplib2, response lost": (by_httplib2, "httplib2", "lost"),
    "requests, response lost": (by_requests, "requests", "lost"),
    "http.client, response lost": (by_http_client, "http.client", "lost"),
}
for way, (call, client, calendar) in ways.items():
    try:
        end = f"event {call(calendar)}"
    except Exception as error:
        end = type(error).__name__
    print(f"{way}: {end}, sent {sent[f'/{client}/{calendar}']}")
PY
diff <(sed -n 's/^#   //p' "$self") <(timeout 60 venv/bin/python -W ignore seen.py)
echo "as described"
