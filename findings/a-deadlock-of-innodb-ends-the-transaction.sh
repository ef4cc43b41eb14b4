#!/usr/bin/env bash
# mysql2 3.24.6, Knex 3.3.0, TypeORM 1.1.1 on MariaDB 10.11 (Debian 12), Node 20.20: after a deadlock that was caught, the rest of
# the transaction is committed statement by statement, and rollback() is fulfilled and takes nothing back.
#
# A payment is written, a statement whose failure was thought to be harmless (a counter) is caught, and the receipt is written.
# A lock wait timeout undoes the one statement and leaves the transaction as it was. A deadlock, which ends in the same "try
# restarting transaction", undoes all of it and ENDS it: what follows on the connection runs on its own, as with autocommit.
# commit() then reports success for a receipt without a payment, and a rollback after a later error leaves the receipt, too. Of
# four libraries Sequelize 6.37.8 alone looks: it rejects the next query of the transaction. MySQL's page on InnoDB's errors says
# that a deadlock rolls the whole transaction back, not what becomes of the next statement; the one of MySQL 4.1 said that it still
# belongs to the transaction.
#
# Seen, where the callback returns ("returned") and where it throws after the receipt ("threw"):
#   mysql2: lock wait timeout: returned: payment receipt, threw: -; deadlock: returned: receipt, threw: receipt
#   Knex: lock wait timeout: returned: payment receipt, threw: -; deadlock: returned: receipt, threw: receipt
#   Sequelize: lock wait timeout: returned: payment receipt, threw: -; deadlock: rejected: -, rejected: -
#   TypeORM: lock wait timeout: returned: payment receipt, threw: -; deadlock: returned: receipt, threw: receipt
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
server=
trap '[ -z "$server" ] || { kill "$server" 2>/dev/null; wait "$server" 2>/dev/null; } ; rm -rf "$dir"' EXIT
cd "$dir"
mkdir debs root data data/mysql tmp
(cd debs && apt-get -qq download mariadb-server-core liburing2 libpmem1 libndctl6 libdaxctl1 libsnappy1v5 libaio1 2>/dev/null)
for package in debs/*.deb; do dpkg-deb -x "$package" root; done
export LD_LIBRARY_PATH=$dir/root/usr/lib/x86_64-linux-gnu
share=$dir/root/usr/share/mysql
common=(--no-defaults --user="$(id -un)" --datadir="$dir/data" --lc-messages-dir="$share" --tmpdir="$dir/tmp")
(echo 'use mysql;' && cat "$share"/mysql_{system_tables,performance_tables,system_tables_data}.sql) |
  root/usr/sbin/mariadbd "${common[@]}" --bootstrap >bootstrap.log 2>&1
port=$(node -e 'const s=require("net").createServer().listen(0,"127.0.0.1",()=>{console.log(s.address().port);s.close()})')
root/usr/sbin/mariadbd "${common[@]}" --port="$port" --bind-address=127.0.0.1 --socket="$dir/s" --skip-grant-tables \
  --skip-networking=0 --innodb-lock-wait-timeout=1 >server.log 2>&1 &
server=$!
echo '{"private":true}' >package.json
npm install --silent --no-audit --no-fund --legacy-peer-deps mysql2@3.24.6 reflect-metadata@0.2.2 knex@3.3.0 sequelize@6.37.8 \
  typeorm@1.1.1
cat >seen.cjs <<'JS'
require('reflect-metadata');
const knex = require('knex');
const mysql = require('mysql2/promise');
const { Sequelize } = require('sequelize');
const { DataSource } = require('typeorm');

const port = Number(process.argv[2]);
const address = { host: '127.0.0.1', port, user: 'root', database: 'd' };
const later = new Error('of a later step');

const main = async () => {
  let admin;
  for (let tries = 0; admin === undefined; tries += 1) {
    admin = await mysql.createConnection({ ...address, database: undefined }).catch((error) => {
      if (tries > 300) throw error;
      return new Promise((resolve) => setTimeout(() => resolve(undefined), 100));
    });
  }
  await admin.query('CREATE DATABASE d');
  await admin.query('USE d');
  await admin.query('CREATE TABLE ledger (what varchar(20)) ENGINE=InnoDB');
  await admin.query('CREATE TABLE ballast (n int) ENGINE=InnoDB');
  await admin.query('CREATE TABLE counters (id int PRIMARY KEY, n int) ENGINE=InnoDB');
  await admin.query('INSERT INTO counters VALUES (1, 0), (2, 0)');

  const k = knex({ client: 'mysql2', connection: address });
  const sequelize = new Sequelize('d', 'root', '', { host: '127.0.0.1', port, dialect: 'mysql', logging: false });
  const typeorm = await new DataSource({ type: 'mysql', ...address, username: 'root' }).initialize();
  const plain = async (work) => {
    const connection = await mysql.createConnection(address);
    await connection.beginTransaction();
    try {
      await work((sql) => connection.query(sql));
      await connection.commit();
    } catch (error) {
      await connection.rollback();
      throw error;
    } finally {
      connection.destroy();
    }
  };
  const ways = {
    mysql2: plain,
    Knex: (work) => k.transaction((trx) => work(async (sql) => trx.raw(sql))),
    Sequelize: (work) => sequelize.transaction((transaction) => work((sql) => sequelize.query(sql, { transaction }))),
    TypeORM: (work) => typeorm.transaction((manager) => work((sql) => manager.query(sql))),
  };
  // Another transaction holds counter 1; for a deadlock it asks for counter 2, which the first one holds by then. InnoDB
  // gives up the one that changed less, so the other one changes more.
  const rowsAfter = async (transaction, deadlock, fails) => {
    await admin.query('TRUNCATE ledger');
    const other = await mysql.createConnection(address);
    await other.beginTransaction();
    for (let row = 0; row < 20; row += 1) await other.query('INSERT INTO ballast VALUES (1)');
    await other.query('UPDATE counters SET n = n + 1 WHERE id = 1');
    let crossed;
    let code;
    const ended = await transaction(async (query) => {
      await query("INSERT INTO ledger VALUES ('payment')");
      await query('UPDATE counters SET n = n + 1 WHERE id = 2');
      if (deadlock) crossed = other.query('UPDATE counters SET n = n + 1 WHERE id = 2');
      await query('UPDATE counters SET n = n + 1 WHERE id = 1').catch((error) => {
        code = (error.original ?? error.driverError ?? error).code;
      });
      await crossed;
      await query("INSERT INTO ledger VALUES ('receipt')");
      if (fails) throw later;
    }).then(
      () => 'returned',
      (error) => (error === later ? 'threw' : 'rejected'),
    );
    await other.rollback();
    other.destroy();
    const expected = deadlock ? 'ER_LOCK_DEADLOCK' : 'ER_LOCK_WAIT_TIMEOUT';
    if (code !== expected) throw new Error(`${expected} was to come, ${code} came`);
    const [rows] = await admin.query('SELECT what FROM ledger ORDER BY what');
    return `${ended}: ${rows.map((row) => row.what).join(' ') || '-'}`;
  };
  for (const [name, transaction] of Object.entries(ways)) {
    const seen = [];
    for (const [kind, deadlock] of [['lock wait timeout', false], ['deadlock', true]]) {
      const returned = await rowsAfter(transaction, deadlock, false);
      const threw = await rowsAfter(transaction, deadlock, true);
      seen.push(`${kind}: ${returned}, ${threw}`);
    }
    console.log(`${name}: ${seen.join('; ')}`);
  }
  process.exit();
};
void main();
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 90 node seen.cjs "$port")
echo "as described"
