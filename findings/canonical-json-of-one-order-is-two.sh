#!/usr/bin/env bash
# json-canonicalize 3.0.1, canonicalize 4.0.0, Node 20.20: the canonical text of an order (RFC 8785) is another one after the order
# has been sent as JSON, or is no JSON.
#
# A signature, or a sum by which a repetition is known, is made of the canonical text on both sides: of an object where it is sent,
# and of what was parsed where it arrives. json-canonicalize calls toJSON(), of an amount of money, a document or a Buffer, and leaves
# its properties in the order in which they come: the receiver, who sorts them, has another sum, and so has a retry that was read back
# from a queue. Both write a function that an object carries as the word `undefined`, which no parser reads, and an array with a gap
# shorter than JSON does, or as `[,]`. Nothing throws. Plain data is right in both. Three that promise a stable order only
# (fast-json-stable-stringify 2.1.0, safe-stable-stringify 3.0.0, json-stable-stringify 1.3.0) have one text for each. The readme of
# json-canonicalize promises what RFC 8785 says for all that JSON can represent, and has a chapter on undefined, not on these.
#
# Seen, of an object and of what JSON makes of it:
#   json-canonicalize: plain data one text, toJSON() two texts, a Buffer two texts, a function no JSON, a gap two texts
#   canonicalize: plain data one text, toJSON() one text, a Buffer one text, a function no JSON, a gap no JSON
#   fast-json-stable-stringify: plain data one text, toJSON() one text, a Buffer one text, a function one text, a gap one text
#   safe-stable-stringify: plain data one text, toJSON() one text, a Buffer one text, a function one text, a gap one text
#   json-stable-stringify: plain data one text, toJSON() one text, a Buffer one text, a function one text, a gap one text
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
echo '{"private":true,"type":"module"}' >package.json
npm install --silent --no-audit --no-fund --ignore-scripts json-canonicalize@3.0.1 canonicalize@4.0.0 fast-json-stable-stringify@2.1.0 \
  safe-stable-stringify@3.0.0 json-stable-stringify@1.3.0
cat >seen.mjs <<'JS'
import { createRequire } from 'node:module';
import canonicalize from 'canonicalize';

const require = createRequire(import.meta.url);
const libraries = {
  'json-canonicalize': require('json-canonicalize').canonicalize,
  canonicalize,
  'fast-json-stable-stringify': require('fast-json-stable-stringify'),
  'safe-stable-stringify': require('safe-stable-stringify'),
  'json-stable-stringify': require('json-stable-stringify'),
};
class Money {
  constructor(value, currency) {
    Object.assign(this, { value, currency });
  }
  toJSON() {
    return { value: this.value, currency: this.currency };
  }
}
const items = [1];
items.length = 2;
const orders = {
  'plain data': { order: 1, amount: { value: '1.00', currency: 'EUR' }, note: undefined, at: new Date(0) },
  'toJSON()': { order: 1, amount: new Money('1.00', 'EUR') },
  'a Buffer': { order: 1, file: Buffer.from('a') },
  'a function': { order: 1, pay: () => 'receipt' },
  'a gap': { order: 1, items },
};
const isJson = (text) => {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
};
const textsOf = (textOf, order) => {
  const text = textOf(order);
  if (!isJson(text)) return 'no JSON';
  return text === textOf(JSON.parse(JSON.stringify(order))) ? 'one text' : 'two texts';
};
for (const [name, textOf] of Object.entries(libraries)) {
  console.log(`${name}: ${Object.entries(orders).map(([title, order]) => `${title} ${textsOf(textOf, order)}`).join(', ')}`);
}
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 60 node seen.mjs)
echo "as described"
