#!/usr/bin/env bash
# mt940-js 1.0.0, mt940js 1.3.5, @centrapay/swift-parser 1.0.1, Node 20.20: in a bank's statement (MT940) two customers' payments
# and a reversal have one id, the reversal is a payment, and a booking of the new year is one of last January.
#
# mt940-js gives each transaction an id, by which an import that is run twice would leave out what it has. It is a sum made at the
# end of tag :61:, before :86: with the payer and the purpose is read, and without the bank's reference where that has not all of
# its 16 characters. What two customers pay on one day at one price is then one id, and the second payment is left out. RC, a credit
# that is taken back, is `isCredit` with a positive amount and the same id again; only `code` would differ, if the bank has one for
# it. The readme has the id as a sum of the whole transaction. The other two have no id, and know a reversal. The entry date has no
# year in this format; all three take the one of the value date, so what is entered on 2 January 2026 with the value of 31 December
# is entered on 2 January 2025, below any mark of "imported up to". mt940-js needs tslib and does not name it among its
# dependencies.
#
# Seen:
#   mt940-js: ids 1 of 3, reversal credit 10, no bank reference, entered 2025-01-02
#   mt940js: ids none, reversal debit -10, bank reference B3, entered 2025-01-02
#   @centrapay/swift-parser: ids none, reversal debit -10, bank reference B3, entered 2025-01-02
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
echo '{"private":true,"type":"module"}' >package.json
npm install --silent --no-audit --no-fund --ignore-scripts mt940-js@1.0.0 tslib@1.14.1 mt940js@1.3.5 @centrapay/swift-parser@1.0.1
cat >seen.mjs <<'JS'
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
const { read } = require('mt940-js');
const { Parser } = require('mt940js');
const { parse } = require('@centrapay/swift-parser');

const lines = [
  ':20:STATEMENT1',
  ':25:12345678/0001234567',
  ':28C:1/1',
  ':60F:C260101EUR100,00',
  ':61:2601050105C10,00NTRFNONREF//B1',
  ':86:166?00CREDIT?20INVOICE 1?32CUSTOMER ONE',
  ':61:2601050105C10,00NTRFNONREF//B2',
  ':86:166?00CREDIT?20INVOICE 2?32CUSTOMER TWO',
  ':61:2601050105RC10,00NTRFNONREF//B3',
  ':86:899?00REVERSAL?20INVOICE 1?32CUSTOMER ONE',
  ':61:2512310102D1,15NTRFNONREF//B4',
  ':86:808?00FEE',
  ':62F:C260105EUR108,85',
  '',
];
const statement = lines.join('\r\n');
const report = (name, transactions, creditOf) => {
  const ids = transactions.slice(0, 3).flatMap(({ id }) => id ?? []);
  const [, , { amount, bankReference }, { entryDate }] = transactions;
  const reversal = `${creditOf(transactions[2]) ? 'credit' : 'debit'} ${amount}`;
  const reference = bankReference ? `bank reference ${bankReference}` : 'no bank reference';
  const entered = new Date(entryDate).toISOString().slice(0, 10);
  console.log(`${name}: ids ${ids.length ? `${new Set(ids).size} of 3` : 'none'}, reversal ${reversal}, ${reference}, entered ${entered}`);
};
const isPositive = ({ amount }) => Number(amount) > 0;
report('mt940-js', (await read(Buffer.from(`${statement}-\r\n`)))[0].transactions, ({ isCredit }) => isCredit);
report('mt940js', new Parser().parse(`${statement}-\r\n`)[0].transactions, isPositive);
report('@centrapay/swift-parser', parse({ type: 'mt940', data: statement })[0].transactions, isPositive);
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 60 node seen.mjs)
echo "as described"
