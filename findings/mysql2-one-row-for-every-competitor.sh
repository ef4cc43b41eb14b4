#!/usr/bin/env bash
# mysql2 3.24.6 on MariaDB 10.11 (Debian 12), Node 20.20: ON DUPLICATE KEY UPDATE that changes nothing reports ONE affected row.
#
# The server counts 1 for an inserted row and 0 for one that is set to the values it has, so "affectedRows === 1" reads as "I was
# first". mysql2 asks for found rows in its handshake unless told otherwise, and a row that is found and unchanged then counts 1,
# too: each of 16 competitors for one key takes itself for the winner. With `flags: ['-FOUND_ROWS']` one does.
# INSERT IGNORE tells the winner in both modes.
#
# Seen:
#   default flags: upsert 16 winners of 16, insert ignore 1
#   -FOUND_ROWS: upsert 1 winners of 16, insert ignore 1
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
  --skip-networking=0 >server.log 2>&1 &
server=$!
echo '{"private":true,"type":"module"}' >package.json
npm install --silent --no-audit --no-fund mysql2@3.24.6
cat >seen.mjs <<'JS'
import mysql from 'mysql2/promise';

const address = { host: '127.0.0.1', port: Number(process.argv[2]), user: 'root' };
let admin;
for (let tries = 0; admin === undefined; tries += 1) {
  admin = await mysql.createConnection(address).catch((error) => {
    if (tries > 300) throw error;
    return new Promise((resolve) => setTimeout(() => resolve(undefined), 100));
  });
}
await admin.query('CREATE DATABASE d');
await admin.query('CREATE TABLE d.t (k varchar(64) PRIMARY KEY) ENGINE=InnoDB');
const statements = {
  upsert: 'INSERT INTO d.t (k) VALUES (?) ON DUPLICATE KEY UPDATE k = k',
  'insert ignore': 'INSERT IGNORE INTO d.t (k) VALUES (?)',
};
for (const [name, flags] of [['default flags', []], ['-FOUND_ROWS', ['-FOUND_ROWS']]]) {
  const connections = await Promise.all(
    Array.from({ length: 16 }, () => mysql.createConnection({ ...address, flags })),
  );
  const winners = {};
  for (const [form, sql] of Object.entries(statements)) {
    const results = await Promise.all(connections.map((c) => c.query(sql, [`${name} ${form}`])));
    winners[form] = results.filter(([{ affectedRows }]) => affectedRows === 1).length;
  }
  console.log(`${name}: upsert ${winners.upsert} winners of 16, insert ignore ${winners['insert ignore']}`);
  for (const connection of connections) connection.destroy();
}
process.exit();
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 90 node seen.mjs "$port")
echo "as described"
