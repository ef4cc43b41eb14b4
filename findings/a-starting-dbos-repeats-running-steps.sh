#!/usr/bin/env bash
# @dbos-inc/dbos-sdk 5.3.0 on PostgreSQL 15 (Debian 12), Node 20.20: a second process of an application that starts makes the steps
# run again that the first one is running, and both runs are fulfilled.
#
# A workflow has an id, its steps are written down when they end, and after a crash it goes on behind the last of them. Who crashed
# is told by an executor's id, which is 'local' unless one is given: a process of the same code that starts takes each unfinished
# workflow of 'local' for one of its own past life, and puts it back into the queue, while its owner is at it. A restart that
# overlaps, a second replica or a developer's shell on the same database is enough: the step that calls the bank is called twice at
# the same time, though the workflow has one id. With an executorID of each process' own it is called once. The page on recovery in
# production says that several processes should have one each; two of one name are not refused.
#
# Seen, of a workflow whose step runs while another process starts:
#   no executorID: first fulfilled, second sees the result, step run twice
#   one executorID each: first fulfilled, second sees the result, step run once
#   no executorID, started after the end: first fulfilled, second sees the result, step run once
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
npm install --silent --no-audit --no-fund --ignore-scripts @dbos-inc/dbos-sdk@5.3.0
for _ in $(seq 100); do "$bin/pg_isready" -q -h 127.0.0.1 -p "$port" && break || sleep 0.1; done
cat >shop.mjs <<'JS'
import { appendFileSync, existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { DBOS } from '@dbos-inc/dbos-sdk';

const [role, systemDatabaseUrl, place, executorID] = process.argv.slice(2);
const pay = async () => {
  appendFileSync(`${place}.ledger`, 'paid\n');
  // The bank takes its time: it answers when the test says so.
  while (!existsSync(`${place}.answer`)) await sleep(50);
  return 'receipt';
};
const order = DBOS.registerWorkflow(() => DBOS.runStep(pay, { name: 'pay' }), { name: 'order' });
DBOS.setConfig({ name: 'shop', systemDatabaseUrl, logLevel: 'error', runAdminServer: false, ...(executorID ? { executorID } : {}) });
await DBOS.launch();
process.send('launched');
const handle = role === 'first' ? await DBOS.startWorkflow(order, { workflowID: 'order-1' })() : DBOS.retrieveWorkflow('order-1');
process.send({ result: await handle.getResult() });
process.on('message', () => DBOS.shutdown().then(() => process.exit()));
JS
cat >seen.mjs <<'JS'
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

const url = process.argv[2];
const runsOf = (place) => (existsSync(`${place}.ledger`) ? readFileSync(`${place}.ledger`, 'utf8').split('\n').length - 1 : 0);
const until = async (isSo, tries = 200) => {
  for (; !isSo() && tries > 0; tries -= 1) await sleep(50);
};
async function start(role, place, executorID = '') {
  const child = fork('shop.mjs', [role, `${url}/${place}`, place, executorID], { stdio: 'ignore' });
  await once(child, 'message');
  const result = once(child, 'message').then(([message]) => message.result);
  return { result, end: () => (child.send('end'), once(child, 'exit')) };
}
const answer = (place) => writeFileSync(`${place}.answer`, '');

async function seen(title, place, executorIDs, afterTheEnd) {
  const first = await start('first', place, executorIDs[0]);
  await until(() => runsOf(place) === 1);
  if (afterTheEnd) {
    answer(place);
    await first.result;
  }
  const second = await start('second', place, executorIDs[1]);
  // A step that runs again does so within a moment; one that does not has this long to prove it.
  await until(() => runsOf(place) > 1, 100);
  answer(place);
  const ends = [await first.result, await second.result].map((result) => result === 'receipt');
  const words = `first ${ends[0] ? 'fulfilled' : 'failed'}, second ${ends[1] ? 'sees the result' : 'sees none'}`;
  console.log(`${title}: ${words}, step run ${['never', 'once', 'twice'][runsOf(place)] ?? 'more often'}`);
  await Promise.all([first.end(), second.end()]);
}
await seen('no executorID', 'same', []);
await seen('one executorID each', 'own', ['one', 'other']);
await seen('no executorID, started after the end', 'later', [], true);
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 90 node seen.mjs "postgres://postgres@127.0.0.1:$port")
echo "as described"
