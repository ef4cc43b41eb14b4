#!/usr/bin/env bash
# TypeORM 1.1.1, Sequelize 6.37.8, Knex 3.3.0, MikroORM 6.6.16, Drizzle 0.45.4, pg-promise 12.7.1 on pg 8.23.1, PostgreSQL 15 (Debian
# 12), Node 20.20: transaction() is fulfilled although the server rolled back.
#
# The callback writes a row, and catches the error of a second statement, which it expected ("exists already"). PostgreSQL has given
# the transaction up by then, and answers COMMIT without an error, with the tag ROLLBACK. Six libraries do not look at the tag: the
# caller is told that all is well, and nothing is stored. Kysely looks, and rejects; postgres.js 3.4.9 rejects with the error that
# was caught, and so does Drizzle on top of it, so the same code of Drizzle ends in two ways. On MySQL and SQLite, where a failed
# statement leaves the transaction as it was, the row is kept, which is what the code was tried on. What was
# found of the six's documentation knows two ends: a callback that throws rolls back, one that does not commits.
#
# Seen:
#   TypeORM: fulfilled, rows 0
#   Sequelize: fulfilled, rows 0
#   Knex: fulfilled, rows 0
#   MikroORM: fulfilled, rows 0
#   Drizzle on pg: fulfilled, rows 0
#   pg-promise: fulfilled, rows 0
#   Drizzle on postgres.js: rejected, rows 0
#   postgres.js: rejected, rows 0
#   Kysely: rejected, rows 0
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
npm install --silent --no-audit --no-fund --legacy-peer-deps pg@8.23.1 reflect-metadata@0.2.2 typeorm@1.1.1 sequelize@6.37.8 \
  knex@3.3.0 @mikro-orm/core@6.6.16 @mikro-orm/postgresql@6.6.16 drizzle-orm@0.45.4 pg-promise@12.7.1 postgres@3.4.9 kysely@0.28.19
for _ in $(seq 100); do "$bin/pg_isready" -q -h 127.0.0.1 -p "$port" && break || sleep 0.1; done
cat >seen.cjs <<'JS'
require('reflect-metadata');
const { EntitySchema, MikroORM } = require('@mikro-orm/postgresql');
const { sql } = require('drizzle-orm');
const onPg = require('drizzle-orm/node-postgres').drizzle;
const onPostgresJs = require('drizzle-orm/postgres-js').drizzle;
const knex = require('knex');
const { CompiledQuery, Kysely, PostgresDialect } = require('kysely');
const { Pool } = require('pg');
const pgPromise = require('pg-promise')();
const postgres = require('postgres');
const { Sequelize } = require('sequelize');
const { DataSource } = require('typeorm');

const url = `postgres://postgres@127.0.0.1:${process.argv[2]}/postgres`;
const INSERT = "INSERT INTO payments VALUES ('p-1')";

/** Does both statements of the callback by `query`. */
const work = async (query) => {
  await query(INSERT);
  await query(INSERT).catch((error) => {
    if (!/duplicate key/.test(String(error.parent ?? error.cause ?? error))) throw error;
  });
};
const main = async () => {
  const pool = new Pool({ connectionString: url });
  await pool.query('CREATE TABLE payments (id text PRIMARY KEY)');
  const entity = new EntitySchema({ name: 'Payment', properties: { id: { type: 'text', primary: true } } });
  const typeorm = await new DataSource({ type: 'postgres', url }).initialize();
  const sequelize = new Sequelize(url, { logging: false });
  const mikro = await MikroORM.init({ clientUrl: url, entities: [entity], logger: () => undefined });
  const sqlOf = postgres(url);
  const kysely = new Kysely({ dialect: new PostgresDialect({ pool }) });
  const drizzled = (db) => () => db.transaction((tx) => work((text) => Promise.resolve(tx.execute(sql.raw(text)))));
  const ways = {
    TypeORM: () => typeorm.transaction((manager) => work((text) => manager.query(text))),
    Sequelize: () => sequelize.transaction((transaction) => work((text) => sequelize.query(text, { transaction }))),
    Knex: () => knex({ client: 'pg', connection: url }).transaction((trx) => work(async (text) => trx.raw(text))),
    MikroORM: () => mikro.em.fork().transactional((em) => work((text) => em.execute(text))),
    'Drizzle on pg': drizzled(onPg(pool)),
    'pg-promise': () => pgPromise(url).tx((task) => work((text) => task.none(text))),
    'Drizzle on postgres.js': drizzled(onPostgresJs(sqlOf)),
    'postgres.js': () => sqlOf.begin((tx) => work(async (text) => tx.unsafe(text))),
    Kysely: () => kysely.transaction().execute((trx) => work((text) => trx.executeQuery(CompiledQuery.raw(text)))),
  };
  for (const [name, transaction] of Object.entries(ways)) {
    const end = await transaction().then(
      () => 'fulfilled',
      () => 'rejected',
    );
    const { rows } = await pool.query('SELECT count(*) FROM payments');
    console.log(`${name}: ${end}, rows ${rows[0].count}`);
  }
  process.exit();
};
void main();
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 60 node seen.cjs "$port")
echo "as described"
