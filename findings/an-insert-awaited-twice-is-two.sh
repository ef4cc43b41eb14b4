#!/usr/bin/env bash
# Drizzle 0.45.4, Knex 3.3.0, MikroORM 6.6.16 on pg 8.23.1, PostgreSQL 15 (Debian 12), @supabase/postgrest-js 2.109.0, Node 20.20: an
# insert that is awaited twice is inserted twice.
#
# What they return looks like a promise, and TypeScript takes it for one, but runs its statement at each `then`. Nobody writes
# `await` twice in a row; an async function that awaits the insert and returns the same variable does it, and so do Promise.all
# followed by `await`, and a logger that is handed "the promise". Nothing tells; only an id of one's own makes the second one fail.
# postgres.js and superagent wait for the first `then`, too, but run once; TypeORM and Sequelize start at the call.
# Knex's documentation of then() says the opposite: that the query is not executed multiple times. Drizzle's and MikroORM's show
# `await` on a builder, and what was found of postgrest-js does so, without a word about a second one.
#
# Seen:
#   Drizzle: awaited twice 2, awaited and returned 2
#   Drizzle, execute(): awaited twice 2, awaited and returned 2
#   Knex: awaited twice 2, awaited and returned 2
#   Knex, raw(): awaited twice 2, awaited and returned 2
#   MikroORM, query builder: awaited twice 2, awaited and returned 2
#   postgrest-js: awaited twice 2, awaited and returned 2
#   postgres.js: awaited twice 1, awaited and returned 1
#   superagent: awaited twice 1, awaited and returned 1
#   TypeORM: awaited twice 1, awaited and returned 1
#   Sequelize: awaited twice 1, awaited and returned 1
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
echo '{"private":true}' >package.json
npm install --silent --no-audit --no-fund --legacy-peer-deps pg@8.23.1 reflect-metadata@0.2.2 drizzle-orm@0.45.4 knex@3.3.0 \
  @mikro-orm/core@6.6.16 @mikro-orm/postgresql@6.6.16 @supabase/postgrest-js@2.109.0 postgres@3.4.9 superagent@10.4.2 \
  typeorm@1.1.1 sequelize@6.37.8
for _ in $(seq 100); do "$bin/pg_isready" -q -h 127.0.0.1 -p "$port" && break || sleep 0.1; done
cat >seen.cjs <<'JS'
require('reflect-metadata');
const http = require('node:http');
const { EntitySchema, MikroORM } = require('@mikro-orm/postgresql');
const { PostgrestClient } = require('@supabase/postgrest-js');
const { sql } = require('drizzle-orm');
const { drizzle } = require('drizzle-orm/node-postgres');
const { integer, pgTable, serial } = require('drizzle-orm/pg-core');
const knex = require('knex');
const { Pool } = require('pg');
const postgres = require('postgres');
const { Sequelize } = require('sequelize');
const superagent = require('superagent');
const { DataSource } = require('typeorm');

const url = `postgres://postgres@127.0.0.1:${process.argv[2]}/postgres`;
const INSERT = 'INSERT INTO payments (amount) VALUES (1)';
const main = async () => {
  const pool = new Pool({ connectionString: url });
  await pool.query('CREATE TABLE payments (id serial PRIMARY KEY, amount int)');
  // Stands for an API that inserts a row for each POST.
  const api = http.createServer((req, res) => {
    req.resume();
    req.on('end', async () => {
      await pool.query(INSERT);
      res.writeHead(201, { 'content-type': 'application/json' }).end('[]');
    });
  });
  await new Promise((resolve) => api.listen(0, '127.0.0.1', resolve));
  const apiUrl = `http://127.0.0.1:${api.address().port}`;

  const payments = pgTable('payments', { id: serial().primaryKey(), amount: integer() });
  const db = drizzle(pool);
  const k = knex({ client: 'pg', connection: url });
  const properties = { id: { type: 'number', primary: true }, amount: { type: 'number' } };
  const entities = [new EntitySchema({ name: 'Payment', tableName: 'payments', properties })];
  const { em } = await MikroORM.init({ clientUrl: url, entities, logger: () => undefined });
  const sqlOf = postgres(url);
  const typeorm = await new DataSource({ type: 'postgres', url }).initialize();
  const sequelize = new Sequelize(url, { logging: false });

  const ways = {
    Drizzle: () => db.insert(payments).values({ amount: 1 }),
    'Drizzle, execute()': () => db.execute(sql.raw(INSERT)),
    Knex: () => k('payments').insert({ amount: 1 }),
    'Knex, raw()': () => k.raw(INSERT),
    'MikroORM, query builder': () => em.fork().createQueryBuilder('Payment').insert({ amount: 1 }),
    'postgrest-js': () => new PostgrestClient(apiUrl).from('payments').insert({ amount: 1 }),
    'postgres.js': () => sqlOf.unsafe(INSERT),
    superagent: () => superagent.post(apiUrl).send({ amount: 1 }),
    TypeORM: () => typeorm.query(INSERT),
    Sequelize: () => sequelize.query(INSERT),
  };
  const rowsAfter = async (work) => {
    await pool.query('TRUNCATE payments');
    await work();
    return (await pool.query('SELECT count(*) FROM payments')).rows[0].count;
  };
  for (const [name, insert] of Object.entries(ways)) {
    const twice = await rowsAfter(async () => {
      const inserted = insert();
      await inserted;
      await inserted;
    });
    const returned = await rowsAfter(async () => {
      const inserted = insert();
      await inserted;
      return inserted;
    });
    console.log(`${name}: awaited twice ${twice}, awaited and returned ${returned}`);
  }
  process.exit();
};
void main();
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 60 node seen.cjs "$port")
echo "as described"
