#!/usr/bin/env bash
# agenda 6.2.6 with @agendajs/postgres-backend 3.0.6 on pg 8.23.1, PostgreSQL 15 (Debian 12), Node 20.20: eight saves of one
# unique() job at the same time are eight jobs, and each of them runs.
#
# The backend looks for a job of these values, and inserts one if there is none, in two statements without a lock, a transaction or
# an index. FOR UPDATE SKIP LOCKED, which its readme promises against duplicates, sees to it that each of the eight runs once. The
# readme of version 5, for MongoDB alone, asked for a unique index of one's own; those of version 6 and of this backend do not. With
# one, the losers' save() rejects. A job that has run keeps its row: saved again with insertOnly it does not run, without it does.
#
# Seen:
#   eight at once: fulfilled 8, jobs 8, runs 8
#   eight at once, with an index: fulfilled 1, jobs 1, runs 1
#   one after another: fulfilled 8, jobs 1, runs 1
#   again after it has run, insertOnly: fulfilled 1, jobs 1, runs 1
#   again after it has run: fulfilled 1, jobs 1, runs 2
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
npm install --silent --no-audit --no-fund agenda@6.2.6 @agendajs/postgres-backend@3.0.6 pg@8.23.1
for _ in $(seq 100); do "$bin/pg_isready" -q -h 127.0.0.1 -p "$port" && break || sleep 0.1; done
cat >seen.mjs <<'JS'
import { PostgresBackend } from '@agendajs/postgres-backend';
import { Agenda } from 'agenda';
import pg from 'pg';

const connectionString = `postgres://postgres@127.0.0.1:${process.argv[2]}/postgres`;
const pool = new pg.Pool({ connectionString });
const until = async (isSo) => {
  for (let tries = 0; !(await isSo()); tries += 1) {
    if (tries > 400) throw new Error('in vain');
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
};
const numberOf = async (text) => Number((await pool.query(text)).rows[0].count);
const jobs = () => numberOf('SELECT count(*) FROM agenda_jobs');
const unfinished = () => numberOf('SELECT count(*) FROM agenda_jobs WHERE last_finished_at IS NULL OR next_run_at IS NOT NULL');

let runs = 0;
const instances = [];
for (const name of ['one', 'other']) {
  const agenda = new Agenda({ name, backend: new PostgresBackend({ connectionString }), processEvery: 100 });
  agenda.define('pay', async () => {
    runs += 1;
  });
  await agenda.start();
  instances.push(agenda);
}
const save = (index, orderId, options) =>
  instances[index % 2].create('pay', { orderId }).unique({ 'data.orderId': orderId }, options).schedule(new Date()).save();
const eight = Array.from({ length: 8 }, (_, index) => index);
const onlyOnce = { insertOnly: true };

const report = async (title, saving) => {
  const fulfilled = (await saving).filter(({ status }) => status === 'fulfilled').length;
  await until(async () => (await unfinished()) === 0);
  console.log(`${title}: fulfilled ${fulfilled}, jobs ${await jobs()}, runs ${runs}`);
};
/** Saves while an insert has to wait, as beside a slow one: each has looked before any inserts. */
const atOnce = async (orderId) => {
  const other = await pool.connect();
  await other.query('BEGIN');
  await other.query('LOCK TABLE agenda_jobs IN EXCLUSIVE MODE');
  const saving = Promise.allSettled(eight.map((index) => save(index, orderId, onlyOnce)));
  const waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'INSERT%'";
  await until(async () => (await numberOf(waiting)) === eight.length);
  await other.query('COMMIT');
  other.release();
  return saving;
};
const clear = async () => {
  await pool.query('TRUNCATE agenda_jobs');
  runs = 0;
};

await report('eight at once', atOnce(1));
await clear();
await pool.query("CREATE UNIQUE INDEX mine ON agenda_jobs (name, (data->>'orderId'))");
await report('eight at once, with an index', atOnce(2));
await pool.query('DROP INDEX mine');
await clear();
const results = [];
for (const index of eight) results.push(...(await Promise.allSettled([save(index, 3, onlyOnce)])));
await report('one after another', Promise.resolve(results));
await report('again after it has run, insertOnly', Promise.allSettled([save(0, 3, onlyOnce)]));
await report('again after it has run', Promise.allSettled([save(0, 3)]));
process.exit();
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 90 node seen.mjs "$port")
echo "as described"
