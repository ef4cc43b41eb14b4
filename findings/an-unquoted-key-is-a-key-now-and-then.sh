#!/usr/bin/env bash
# structured-headers 2.1.0, structured-field-values 2.0.4, @svta/cml-structured-field-values 1.1.6, Node 20.20: a UUID without its
# quotes is taken as an Idempotency-Key if it begins with a letter, and then it is no string.
#
# The draft of the field wants a string in quotes; clients leave them out. To a parser of structured fields that is a token, which
# begins with a letter, so 6 of 16 UUIDs pass and 10 are errors: a client's test with one fixed key is green or red by chance. What
# passes is no string. structured-headers makes a new object of each, so that neither === nor a Map knows the retry again; the
# other two make a symbol, which is equal, and throws in a template string. Ids of digits become numbers: 7, 007 and 7.0 are one
# key. The parsers differ on quoted text, too: "é" passes two of them, and RFC 8941 allows ASCII alone. Apart from that it is as
# the RFC has it. The readme of structured-field-values explains its symbols; on keys, or on what a missing quote makes of them, no
# word was found.
#
# Seen:
#   structured-headers: quoted 16 of 16, unquoted 6 (object); retry not equal, in a string its text; 7 007 7.0 are 1; "é" refused
#   structured-field-values: quoted 16 of 16, unquoted 6 (symbol); retry equal, in a string TypeError; 7 007 7.0 are 1; "é" passes
#   @svta: quoted 16 of 16, unquoted 6 (symbol); retry equal, in a string TypeError; 7 007 7.0 are 1; "é" passes
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
echo '{"private":true,"type":"module"}' >package.json
npm install --silent --no-audit --no-fund structured-headers@2.1.0 structured-field-values@2.0.4 \
  @svta/cml-structured-field-values@1.1.6
cat >seen.mjs <<'JS'
import * as svta from '@svta/cml-structured-field-values';
import * as values from 'structured-field-values';
import * as headers from 'structured-headers';

const parsers = {
  'structured-headers': (field) => headers.parseItem(field)[0],
  'structured-field-values': (field) => values.decodeItem(field).value,
  '@svta': (field) => svta.decodeSfItem(field).value,
};
const uuids = Array.from({ length: 16 }, (_, digit) => `${digit.toString(16)}e03978e-40d5-43dd-bc93-6894a57f9324`);
for (const [name, parse] of Object.entries(parsers)) {
  const passes = (field) => {
    try {
      parse(field);
      return true;
    } catch {
      return false;
    }
  };
  const quoted = uuids.filter((uuid) => passes(`"${uuid}"`)).length;
  const plain = uuids.filter(passes);
  const [one, retry] = [parse(plain[0]), parse(plain[0])];
  let text = 'its text';
  try {
    if (`${one}` !== plain[0]) text = `${one}`;
  } catch (error) {
    text = error.name;
  }
  const numbers = new Set(['7', '007', '7.0'].map(parse)).size;
  const letter = passes('"é"') ? 'passes' : 'refused';
  const token = `retry ${one === retry ? 'equal' : 'not equal'}, in a string ${text}`;
  const passed = `quoted ${quoted} of ${uuids.length}, unquoted ${plain.length} (${typeof one})`;
  console.log(`${name}: ${passed}; ${token}; 7 007 7.0 are ${numbers}; "é" ${letter}`);
}
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 30 node seen.mjs)
echo "as described"
