#!/usr/bin/env bash
# Prisma 7.10.1 with @prisma/adapter-pg 7.10.1, PostgreSQL 15 (Debian 12), Node 20.20: in raw queries Infinity, -Infinity and NaN
# arrive as NULL, without an error.
#
# $queryRaw and $executeRaw write their values as JSON before the driver adapter gets them, and JSON has no such numbers. Models do
# not go that way: create() stores Infinity in the same column, and a filter compares with it. So "no limit" as a deadline or a quota
# works until the statement is written by hand; then `spent < NULL` holds for no row, and an INSERT leaves the column empty, which
# the next reader may take for 0 or for no rule at all. pg alone sends all three. The page on raw queries lists types whose values are
# converted on the way back, and says nothing of numbers on the way in.
#
# Seen:
#   pg, spent < Infinity: 1 row
#   model, spent < Infinity: 1 row
#   $executeRaw, spent < Infinity: 0 rows
#   $executeRawUnsafe, spent < Infinity: 0 rows
#   stored by pg: Infinity -Infinity NaN
#   stored by create(): Infinity -Infinity NaN
#   stored by $executeRaw: null null null
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
npm install --silent --no-audit --no-fund prisma@7.10.1 @prisma/client@7.10.0 @prisma/adapter-pg@7.10.1 pg@8.23.1
cat >schema.prisma <<'PRISMA'
generator client {
  provider = "prisma-client-js"
  output   = "./client"
}

datasource db {
  provider = "postgresql"
}

model Quota {
  id    String @id
  spent Float?
}
PRISMA
# A client with a driver adapter does not need the schema engine, which would be downloaded.
PRISMA_SCHEMA_ENGINE_BINARY=$(command -v node) CHECKPOINT_DISABLE=1 node node_modules/prisma/build/index.js generate \
  --schema schema.prisma >generate.log 2>&1
for _ in $(seq 100); do "$bin/pg_isready" -q -h 127.0.0.1 -p "$port" && break || sleep 0.1; done
cat >seen.cjs <<'JS'
const { PrismaPg } = require('@prisma/adapter-pg');
const { Pool } = require('pg');
const { PrismaClient } = require('./client');

const connectionString = `postgres://postgres@127.0.0.1:${process.argv[2]}/postgres`;
const rows = (count) => `${count} ${count === 1 ? 'row' : 'rows'}`;
const main = async () => {
  const pool = new Pool({ connectionString });
  const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString }) });
  await pool.query('CREATE TABLE "Quota" (id text PRIMARY KEY, spent double precision)');
  await pool.query(`INSERT INTO "Quota" VALUES ('q-1', 0)`);
  const limit = Infinity;
  const data = { spent: { increment: 10 } };
  const text = 'UPDATE "Quota" SET spent = spent + 10 WHERE spent < $1';
  const spending = {
    pg: async () => (await pool.query(text, [limit])).rowCount,
    model: async () => (await prisma.quota.updateMany({ where: { spent: { lt: limit } }, data })).count,
    $executeRaw: () => prisma.$executeRaw`UPDATE "Quota" SET spent = spent + 10 WHERE spent < ${limit}`,
    $executeRawUnsafe: () => prisma.$executeRawUnsafe(text, limit),
  };
  for (const [name, spend] of Object.entries(spending)) {
    console.log(`${name}, spent < Infinity: ${rows(await spend())}`);
  }
  const storing = {
    pg: (id, spent) => pool.query('INSERT INTO "Quota" VALUES ($1, $2)', [id, spent]),
    'create()': (id, spent) => prisma.quota.create({ data: { id, spent } }),
    $executeRaw: (id, spent) => prisma.$executeRaw`INSERT INTO "Quota" VALUES (${id}, ${spent})`,
  };
  for (const [name, store] of Object.entries(storing)) {
    const stored = [];
    for (const spent of [Infinity, -Infinity, NaN]) {
      const id = `${name} ${spent}`;
      await store(id, spent);
      const [row] = (await pool.query('SELECT spent::text FROM "Quota" WHERE id = $1', [id])).rows;
      stored.push(String(row.spent));
    }
    console.log(`stored by ${name}: ${stored.join(' ')}`);
  }
  process.exit();
};
void main();
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 60 node seen.cjs "$port")
echo "as described"
