#!/usr/bin/env bash
# redis-py 8.1.0, redis-server 7.0 (Debian 12), Python 3.11.7: a command whose reply is lost is sent again by default, up to eleven
# times in all.
#
# Each client comes with a policy of ten retries, for any command: an INCR or a script as well as a GET, and a whole MULTI. It is of
# use where no connection can be made, and is followed, too, where the server has done the work and only the reply is missing. One
# call then counts twice, and returns as if nothing had happened; RPUSH puts one job into a queue twice; a SET with NX that has won
# finds its own value and answers that it lost: the lock is held, and nobody knows that it is theirs. The options that look as though
# they ended it (retry_on_timeout=False, retry_on_error=[]) are for adding to it, and change nothing; a Retry of 0 ends it. The
# readme does not mention retries. node-redis's createClient() rejects such a command.
#
# Seen, where one reply is lost, and where all are:
#   incr: one returned 2, counter 2; all ConnectionError, counter 11
#   script: one returned 2, counter 2; all ConnectionError, counter 11
#   MULTI: one returned [2], counter 2; all ConnectionError, counter 11
#   asyncio: one returned 2, counter 2; all ConnectionError, counter 11
#   rpush: one returned 2, jobs 2; all ConnectionError, jobs 11
#   set with nx: one returned None, held True; all ConnectionError, held True
#   retry_on_timeout=False, retry_on_error=[]: one returned 2, counter 2; all ConnectionError, counter 11
#   Retry of 0: one ConnectionError, counter 1; all ConnectionError, counter 1
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
server=
trap '[ -z "$server" ] || { kill "$server" 2>/dev/null; wait "$server" 2>/dev/null; } ; rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check --retries 0 redis==8.1.0 2>pip.log || { cat pip.log; exit 1; }
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
redis-server --port "$port" --bind 127.0.0.1 --save '' >server.log &
server=$!
for _ in $(seq 100); do redis-cli -p "$port" ping >/dev/null 2>&1 && break || sleep 0.1; done
cat >seen.py <<'PY'
import asyncio, socket, sys, threading
import redis, redis.asyncio
from concurrent.futures import ThreadPoolExecutor
from redis.backoff import NoBackoff
from redis.retry import Retry

port = int(sys.argv[1])
WRITES = (b"INCR", b"EVAL", b"RPUSH", b"SET\r\n", b"MULTI")


def losing(replies):
    """A way to the server on which the given number of replies to a write is lost: the command runs, the connection ends."""
    left = [replies]
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(client):
        with client, socket.create_connection(("127.0.0.1", port)) as upstream:
            while command := client.recv(65536):
                upstream.sendall(command)
                reply = upstream.recv(65536)
                if left[0] > 0 and any(name in command for name in WRITES):
                    left[0] -= 1
                    return
                client.sendall(reply)

    def accept():
        while True:
            threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listener.getsockname()[1]


def multi(client, key):
    pipeline = client.pipeline(transaction=True)
    pipeline.incr(key)
    return pipeline.execute()


def by_asyncio(client, key):
    async def run():
        other = redis.asyncio.Redis(port=client.get_connection_kwargs()["port"])
        try:
            return await other.incr(key)
        finally:
            await other.aclose()

    return asyncio.run(run())


incr = lambda client, key: client.incr(key)
direct = redis.Redis(port=port, decode_responses=True)
counter = lambda key: f"counter {direct.get(key)}"
WAYS = {
    "incr": ({}, incr, counter),
    "script": ({}, lambda client, key: client.eval("return redis.call('incr', KEYS[1])", 1, key), counter),
    "MULTI": ({}, multi, counter),
    "asyncio": ({}, by_asyncio, counter),
    "rpush": ({}, lambda client, key: client.rpush(key, "job"), lambda key: f"jobs {direct.llen(key)}"),
    "set with nx": ({}, lambda client, key: client.set(key, "owner", nx=True), lambda key: f"held {direct.get(key) == 'owner'}"),
    "retry_on_timeout=False, retry_on_error=[]": ({"retry_on_timeout": False, "retry_on_error": []}, incr, counter),
    "Retry of 0": ({"retry": Retry(NoBackoff(), 0)}, incr, counter),
}


def seen(way, replies):
    options, call, look = WAYS[way]
    key = f"{way} {replies}"
    client = redis.Redis(port=losing(replies), **options)
    try:
        end = f"returned {call(client, key)}"
    except redis.RedisError as error:
        end = type(error).__name__
    return f"{end}, {look(key)}"


with ThreadPoolExecutor(2 * len(WAYS)) as pool:
    lines = {way: [pool.submit(seen, way, replies) for replies in (1, 1000)] for way in WAYS}
for way, (one, all_lost) in lines.items():
    print(f"{way}: one {one.result()}; all {all_lost.result()}")
PY
diff <(sed -n 's/^#   //p' "$self") <(timeout 180 venv/bin/python seen.py "$port")
echo "as described"
