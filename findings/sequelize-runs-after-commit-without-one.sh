#!/usr/bin/env bash
# Sequelize 6.37.8 on pg 8.23.1, PostgreSQL 15 (Debian 12), Node 20.20: the hooks of afterCommit() run although COMMIT failed.
#
# A constraint that is deferred is checked by COMMIT, which then rolls back and answers with an error. transaction() rejects, as it
# should, but before that it has called what was given to transaction.afterCommit(): the mail is sent for an order that does not
# exist. The hooks stand in the `finally` around COMMIT, so a connection that is lost at COMMIT calls them, too. A callback that
# throws calls none.
#
# Seen:
#   committed: fulfilled, orders 1, mails 1
#   work throws: rejected, orders 0, mails 0
#   COMMIT fails: rejected, orders 0, mails 1
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
npm install --silent --no-audit --no-fund pg@8.23.1 sequelize@6.37.8
for _ in $(seq 100); do "$bin/pg_isready" -q -h 127.0.0.1 -p "$port" && break || sleep 0.1; done
cat >seen.cjs <<'JS'
const { Sequelize } = require('sequelize');

const sequelize = new Sequelize(`postgres://postgres@127.0.0.1:${process.argv[2]}/postgres`, { logging: false });
const main = async () => {
  await sequelize.query('CREATE TABLE customer (id int PRIMARY KEY)');
  await sequelize.query(
    'CREATE TABLE orders (id int PRIMARY KEY, customer int REFERENCES customer DEFERRABLE INITIALLY DEFERRED)',
  );
  await sequelize.query('INSERT INTO customer VALUES (1)');
  for (const [name, customer, after] of [
    ['committed', 1, () => undefined],
    ['work throws', 1, () => { throw new Error('no stock'); }],
    ['COMMIT fails', 2, () => undefined],
  ]) {
    await sequelize.query('DELETE FROM orders');
    let mails = 0;
    const end = await sequelize
      .transaction(async (transaction) => {
        transaction.afterCommit(() => void (mails += 1));
        await sequelize.query(`INSERT INTO orders VALUES (1, ${customer})`, { transaction });
        after();
      })
      .then(
        () => 'fulfilled',
        () => 'rejected',
      );
    const [[{ count }]] = await sequelize.query('SELECT count(*) FROM orders');
    console.log(`${name}: ${end}, orders ${count}, mails ${mails}`);
  }
  await sequelize.close();
};
main();
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 60 node seen.cjs "$port" 2>node.log)
echo "as described"
