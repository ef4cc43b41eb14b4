#!/usr/bin/env bash
# @electric-sql/pglite-socket 0.2.17 with @electric-sql/pglite 0.5.14 and pg 8.23.1, Node 20.20: all connections are one session, so
# each competitor gets the advisory lock, and a lock is still held when its connection has ended.
#
# The server keeps transactions apart: a statement of another connection waits for COMMIT or ROLLBACK. What belongs to a session is
# everybody's: its settings, its locks, its prepared statements, what it listens to. A second connection that asks for a lock of
# the first one re-enters it. Code that lets one of two through by pg_advisory_lock passes no test here that it would fail.
#
# Seen:
#   backends of two connections: 1
#   pg_try_advisory_lock(7): first true, second true
#   held after both have ended: true, granted 1
#   statement_timeout of the first, as the second sees it: 1234ms
#   prepared by the first, executed by the second: 1
#   a notification that the first listens for is heard by: second
#   insert by the second while the first has a transaction: waits, then stays after the rollback
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
echo '{"private":true,"type":"module"}' >package.json
npm install --silent --no-audit --no-fund @electric-sql/pglite-socket@0.2.17 @electric-sql/pglite@0.5.14 pg@8.23.1
cat >seen.mjs <<'JS'
import { PGlite } from '@electric-sql/pglite';
import { PGLiteSocketServer } from '@electric-sql/pglite-socket';
import pg from 'pg';

const db = await PGlite.create();
const server = new PGLiteSocketServer({ db, host: '127.0.0.1', port: 0, maxConnections: 10 });
await server.start();
const port = Number(server.getServerConn().split(':').pop());
async function connect() {
  const client = new pg.Client({ host: '127.0.0.1', port, user: 'postgres', database: 'postgres' });
  client.on('error', () => undefined);
  await client.connect();
  return client;
}
const value = async (client, text) => Object.values((await client.query(text)).rows[0])[0];
const [first, second] = [await connect(), await connect()];

const pids = new Set([await value(first, 'SELECT pg_backend_pid()'), await value(second, 'SELECT pg_backend_pid()')]);
console.log(`backends of two connections: ${pids.size}`);

const lock = 'SELECT pg_try_advisory_lock(7)';
const got = [await value(first, lock), await value(second, lock)];
console.log(`pg_try_advisory_lock(7): first ${got[0]}, second ${got[1]}`);
await Promise.all([first.end(), second.end()]);
const [third, fourth] = [await connect(), await connect()];
const granted = Number(await value(third, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted`));
console.log(`held after both have ended: ${granted > 0}, granted ${granted}`);

await third.query(`SET statement_timeout = '1234ms'`);
console.log(`statement_timeout of the first, as the second sees it: ${await value(fourth, 'SHOW statement_timeout')}`);
await third.query('SET statement_timeout = 0');
await third.query('PREPARE one AS SELECT 1');
console.log(`prepared by the first, executed by the second: ${await value(fourth, 'EXECUTE one')}`);

const heard = [];
third.on('notification', () => heard.push('first'));
fourth.on('notification', () => heard.push('second'));
await third.query('LISTEN paid');
await fourth.query('NOTIFY paid');
await third.query('SELECT 1');
console.log(`a notification that the first listens for is heard by: ${heard.join(', ')}`);

await third.query('CREATE TABLE orders (key text PRIMARY KEY)');
await third.query('BEGIN');
await third.query(`INSERT INTO orders VALUES ('a')`);
let done = false;
const inserted = fourth.query(`INSERT INTO orders VALUES ('b')`).then(() => (done = true));
// The first asks five times meanwhile.
for (let times = 0; times < 5; times += 1) await third.query('SELECT 1');
const waited = !done;
await third.query('ROLLBACK');
await inserted;
const keys = (await third.query('SELECT key FROM orders')).rows.map(({ key }) => key).join();
console.log(
  `insert by the second while the first has a transaction: ${waited ? 'waits' : 'is done'}, ` +
    `then ${keys === 'b' ? 'stays' : 'is gone'} after the rollback`,
);
process.exit();
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 60 node seen.mjs)
echo "as described"
