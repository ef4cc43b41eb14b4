#!/usr/bin/env bash
# @midlandsbank/node-nacha 0.4.0, Node 20.20: two files of ACH payments that are made on one day have the same identity, and an
# amount that does not fit its field is written as another one.
#
# A file of NACHA is known by its origin, its date, its time in minutes and a modifier that tells the files of a day apart, and an
# entry by its trace number; what was seen before is a repetition to whoever compares them. The package writes the modifier A into
# each file, and counts each file's entries from 0: the second payroll of a day, to other people, has the first one's trace numbers,
# and within a minute all of its identity. `idModifier` in create() and a `traceNumber` with each entry, of which the readme says
# nothing, change that. A credit of 12345678901 cents loses its first digit in the entry and keeps it in the file's total, and dollars
# with a point are written as they are into a field of digits. Nothing throws; the readme names no unit and no limit.
#
# Seen:
#   two files: modifiers A A, trace numbers 123456780000000 123456780000000
#   with options: modifiers A B, trace numbers 123456780000000 123456780000007
#   12345678901 cents: entry 2345678901, total of the file 012345678901
#   19.99: entry 0000019.99
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
echo '{"private":true,"type":"module"}' >package.json
npm install --silent --no-audit --no-fund --ignore-scripts @midlandsbank/node-nacha@0.4.0
cat >seen.mjs <<'JS'
import nacha from '@midlandsbank/node-nacha';

/** The lines of a file with one credit: header, batch, entry, end of the batch, end of the file. */
function file(name, amount, ofFile, ofEntry) {
  const payroll = nacha
    .create({ from: { name: 'Your Company', fein: '123456789' }, for: { name: 'Our Bank', routing: '123456789' }, ...ofFile })
    .ppd({ effectiveDate: '260105', description: 'Payroll', note: 'note', date: 'Jan 05' })
    .credit({ name, account: { num: '135792468', type: 'C' }, routing: '987654321', amount, ...ofEntry });
  return nacha.from(payroll).to('ach').split(/\r?\n/);
}
const modifier = ([header]) => header.slice(33, 34);
const amountOf = ([, , entry]) => entry.slice(29, 39);
const traceOf = ([, , entry]) => entry.slice(79, 94);
const totalOf = ([, , , , end]) => end.slice(43, 55);

const report = (title, files) => {
  console.log(`${title}: modifiers ${files.map(modifier).join(' ')}, trace numbers ${files.map(traceOf).join(' ')}`);
};
report('two files', [file('One', 100), file('Other', 200)]);
report('with options', [file('One', 100), file('Other', 200, { idModifier: 'B' }, { traceNumber: '123456780000007' })]);
const large = file('One', 12_345_678_901);
console.log(`12345678901 cents: entry ${amountOf(large)}, total of the file ${totalOf(large)}`);
console.log(`19.99: entry ${amountOf(file('One', 19.99))}`);
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 60 node seen.mjs)
echo "as described"
