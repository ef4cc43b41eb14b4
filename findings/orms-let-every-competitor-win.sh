#!/usr/bin/env bash
# TypeORM 1.1.1 and Sequelize 6.37.8 on pg 8.23.1, PostgreSQL 15 (Debian 12), Node 20.20: eight compete for one key in three usual
# ways, and all eight win.
#
# TypeORM's query() gives the rows of a statement that begins with INSERT, SELECT or WITH, and a pair [rows, count] for one that
# begins with UPDATE or DELETE. So `const [row] = await query('UPDATE … RETURNING *')` is an array, true also when it is empty, and
# `rows.length === 1` never holds; the same update inside of WITH tells one winner. With orIgnore(), `identifiers` names the row that
# was ignored like one that was inserted, where the key is not the database's to choose; `raw` after returning() does not. Sequelize's
# bulkCreate() with ignoreDuplicates returns what it was given, with the loser's values, as though they had been stored.
# InsertResult is described as the ids that were inserted; no page was found that gives query()'s pair, or says who was ignored.
#
# Seen:
#   TypeORM, INSERT … ON CONFLICT DO NOTHING RETURNING, first element: 1 of 8
#   TypeORM, UPDATE … RETURNING, first element: 8 of 8
#   TypeORM, UPDATE … RETURNING, one element: 0 of 8
#   TypeORM, DELETE … RETURNING, first element: 8 of 8
#   TypeORM, WITH … UPDATE … RETURNING, first element: 1 of 8
#   TypeORM, orIgnore(), identifiers: 8 of 8
#   TypeORM, orIgnore().returning('key'), raw: 1 of 8
#   Sequelize, ignoreDuplicates, own value returned: 8 of 8
#   Sequelize, ignoreDuplicates, own value stored: 1 of 8
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
npm install --silent --no-audit --no-fund --legacy-peer-deps pg@8.23.1 reflect-metadata@0.2.2 typeorm@1.1.1 sequelize@6.37.8
for _ in $(seq 100); do "$bin/pg_isready" -q -h 127.0.0.1 -p "$port" && break || sleep 0.1; done
cat >seen.cjs <<'JS'
require('reflect-metadata');
const { DataTypes, Sequelize } = require('sequelize');
const { DataSource, EntitySchema } = require('typeorm');

const url = `postgres://postgres@127.0.0.1:${process.argv[2]}/postgres`;
const KEY = 'key-1';
const columns = { key: { type: 'text', primary: true }, owner: { type: 'int', nullable: true } };
const claim = new EntitySchema({ name: 'claim', columns });
const main = async () => {
  const typeorm = await new DataSource({ type: 'postgres', url, entities: [claim], synchronize: true }).initialize();
  const claims = typeorm.getRepository(claim);
  const sequelize = new Sequelize(url, { logging: false });
  const model = { key: { type: DataTypes.TEXT, primaryKey: true }, owner: DataTypes.INTEGER };
  const Claim = sequelize.define('claim', model, { tableName: 'claim', timestamps: false });

  const insert = (owner) =>
    typeorm.query('INSERT INTO claim VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING *', [KEY, owner]);
  const update = (owner) =>
    typeorm.query('UPDATE claim SET owner = $2 WHERE key = $1 AND owner IS NULL RETURNING *', [KEY, owner]);
  const remove = () => typeorm.query('DELETE FROM claim WHERE key = $1 RETURNING *', [KEY]);
  const within = (owner) =>
    typeorm.query(
      'WITH mine AS (UPDATE claim SET owner = $2 WHERE key = $1 AND owner IS NULL RETURNING *) SELECT * FROM mine',
      [KEY, owner],
    );
  const ignoring = (owner) => claims.createQueryBuilder().insert().values({ key: KEY, owner }).orIgnore();
  const orIgnore = (owner) => ignoring(owner).execute();
  const orIgnoreReturning = (owner) => ignoring(owner).returning('key').execute();
  const bulkCreate = (owner) => Claim.bulkCreate([{ key: KEY, owner }], { ignoreDuplicates: true });
  const storedOwner = async () => (await claims.findOneByOrFail({ key: KEY })).owner;

  const first = ([row]) => Boolean(row);
  for (const [title, exists, compete, won] of [
    ['TypeORM, INSERT … ON CONFLICT DO NOTHING RETURNING, first element', false, insert, first],
    ['TypeORM, UPDATE … RETURNING, first element', true, update, first],
    ['TypeORM, UPDATE … RETURNING, one element', true, update, (rows) => rows.length === 1],
    ['TypeORM, DELETE … RETURNING, first element', true, remove, first],
    ['TypeORM, WITH … UPDATE … RETURNING, first element', true, within, first],
    ['TypeORM, orIgnore(), identifiers', false, orIgnore, ({ identifiers }) => identifiers.length === 1],
    ["TypeORM, orIgnore().returning('key'), raw", false, orIgnoreReturning, ({ raw }) => raw.length === 1],
    ['Sequelize, ignoreDuplicates, own value returned', false, bulkCreate, ([{ owner }], self) => owner === self],
    ['Sequelize, ignoreDuplicates, own value stored', false, bulkCreate, async (_, self) => (await storedOwner()) === self],
  ]) {
    await claims.clear();
    if (exists) await claims.insert({ key: KEY });
    const competitors = Array.from({ length: 8 }, (_, owner) => owner);
    const results = await Promise.all(competitors.map((owner) => compete(owner)));
    const winners = await Promise.all(competitors.map((owner) => won(results[owner], owner)));
    console.log(`${title}: ${winners.filter(Boolean).length} of 8`);
  }
  process.exit();
};
void main();
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 60 node seen.cjs "$port")
echo "as described"
