#!/usr/bin/env bash
# currency.js 2.0.4, accounting 0.4.1, numeral 2.0.6, Node 20.20: the refund of an amount is a cent less than its charge, and a refund
# that Intl has written for a Swedish reader is read back as a charge.
#
# Half a cent is rounded by Math.round, which goes up: 12.5 is 13, and -12.5 is -12. A fee of half of 0.25 is taken as 0.13 and given
# back as 0.12, so each pair of entries leaves a cent on an account that should be at zero, and a reconciliation by "the same amount
# with the other sign" finds no partner. big.js 7.0.1, bignumber.js 11.1.5, decimal.js 10.6.0, Intl and the banker's rounding of
# dinero.js 1.9.1 are symmetric. Swedish, as Finnish or Norwegian, has a minus sign of its own (U+2212), which Intl writes, and the
# three do not know: they leave it out, like a currency's sign, with no error. accounting does so with a minus behind the number, too,
# as exports of bookkeeping have it. currency.js's readme, which offers to work around floating point, has no word on either.
#
# Seen:
#   currency.js: charge 0.13, refund -0.12; "−12,50 kr" is 12.5; "12.50-" is NaN
#   accounting: charge 0.13, refund -0.12; "−12,50 kr" is 12.5; "12.50-" is 12.5
#   numeral: charge 0.13, refund -0.12; "−12,50 kr" is 12.5; "12.50-" is -12.5
#   big.js: charge 0.13, refund -0.13
#   bignumber.js: charge 0.13, refund -0.13
#   decimal.js: charge 0.13, refund -0.13
#   Intl: charge 0.13, refund -0.13
#   dinero.js: charge 0.12, refund -0.12
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
echo '{"private":true,"type":"module"}' >package.json
npm install --silent --no-audit --no-fund --ignore-scripts currency.js@2.0.4 accounting@0.4.1 numeral@2.0.6 big.js@7.0.1 \
  bignumber.js@11.1.5 decimal.js@10.6.0 dinero.js@1.9.1
cat >seen.mjs <<'JS'
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
const accounting = require('accounting');
const Big = require('big.js');
const BigNumber = require('bignumber.js');
const currency = require('currency.js');
const Decimal = require('decimal.js');
const dinero = require('dinero.js');
const numeral = require('numeral');

numeral.register('locale', 'sv', { ...numeral.localeData('en'), delimiters: { thousands: ' ', decimal: ',' } });
const inSwedish = (read) => {
  numeral.locale('sv');
  const value = read();
  numeral.locale('en');
  return value;
};
const swedish = new Intl.NumberFormat('sv-SE', { style: 'currency', currency: 'SEK' }).format(-12.5).replace('\u00a0', ' ');
const behind = '12.50-';
const cents = new Intl.NumberFormat('en', { maximumFractionDigits: 2 });
// Half of 0.25, and of what takes it back.
const roundings = {
  'currency.js': (amount) => currency(amount).multiply(0.5).value,
  accounting: (amount) => accounting.toFixed(amount * 0.5, 2),
  numeral: (amount) => numeral(amount * 0.5).format('0.00'),
  'big.js': (amount) => new Big(amount).times(0.5).round(2),
  'bignumber.js': (amount) => new BigNumber(amount).times(0.5).toFixed(2),
  'decimal.js': (amount) => new Decimal(amount).times(0.5).toFixed(2),
  Intl: (amount) => cents.format(amount * 0.5),
  'dinero.js': (amount) => dinero({ amount: amount * 100 }).multiply(0.5).toUnit(),
};
const readers = {
  'currency.js': [() => currency(swedish, { decimal: ',', separator: ' ' }).value, () => currency(behind).value],
  accounting: [() => accounting.unformat(swedish, ','), () => accounting.unformat(behind)],
  numeral: [() => inSwedish(() => numeral(swedish).value()), () => numeral(behind).value()],
};
for (const [name, round] of Object.entries(roundings)) {
  const [charge, refund] = [round(0.25), round(-0.25)];
  const [ofSwedish, ofBehind] = readers[name] ?? [];
  const read = ofSwedish ? `; "${swedish}" is ${ofSwedish()}; "${behind}" is ${ofBehind()}` : '';
  console.log(`${name}: charge ${charge}, refund ${refund}${read}`);
}
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 60 node seen.mjs)
echo "as described"
