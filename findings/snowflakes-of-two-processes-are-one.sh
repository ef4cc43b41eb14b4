#!/usr/bin/env bash
# @sapphire/snowflake 3.5.5, flake-idgen 1.4.0, snowflake-id 1.1.0, @theinternetfolks/snowflake 1.3.0, Node 20.20: two processes that
# give their generators no number of their own make the same ids, and those of the last repeat within one process.
#
# A snowflake is a time, a worker and a counter; ids differ as long as the worker does. The first three have one for everybody (0 or
# 1) where none is given, and count from 0 in each millisecond, so that two replicas which are busy at once make the same ids for
# different orders: an insert fails, a key says "done already", or a message with an id that was seen is dropped. One replica, a test
# and a laptop never show it. Two of their readmes name the default, and one advises against it. The fourth has no counter: its
# readme has one, which waits for the next millisecond when it is full; its code takes the number at random, from 4096, and the
# worker as well unless it is given. With a worker given, as a cluster wants it, 100,000 ids in a row are some 12,000 short.
# nodejs-snowflake 2.0.1 (its worker is random by default), ulid 3.0.2 and hyperid 4.0.0 made no id twice.
#
# Seen, of 4,000 ids per process in about half a second, and of 100,000 in a row:
#   @sapphire/snowflake: two processes share ids, one repeats none
#   flake-idgen: two processes share ids, one repeats none
#   snowflake-id: two processes share ids, one repeats none
#   @theinternetfolks/snowflake: one repeats ids
#   @theinternetfolks/snowflake, shard_id given: one repeats ids by the thousand
#   nodejs-snowflake: two processes share none, one repeats none
#   ulid: two processes share none, one repeats none
#   hyperid: two processes share none, one repeats none
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
echo '{"private":true,"type":"module"}' >package.json
npm install --silent --no-audit --no-fund --ignore-scripts @sapphire/snowflake@3.5.5 flake-idgen@1.4.0 snowflake-id@1.1.0 \
  @theinternetfolks/snowflake@1.3.0 nodejs-snowflake@2.0.1 ulid@3.0.2 hyperid@4.0.0
cat >makers.mjs <<'JS'
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
const folks = (options) => {
  const { Snowflake } = require('@theinternetfolks/snowflake');
  return () => Snowflake.generate(options);
};
export const makers = {
  '@sapphire/snowflake': () => {
    const { Snowflake } = require('@sapphire/snowflake');
    const snowflake = new Snowflake(new Date('2020-01-01'));
    return () => snowflake.generate();
  },
  'flake-idgen': () => {
    const FlakeId = require('flake-idgen');
    const generator = new FlakeId();
    return () => generator.next().toString('hex');
  },
  'snowflake-id': () => {
    const { default: SnowflakeId } = require('snowflake-id');
    const generator = new SnowflakeId();
    return () => generator.generate();
  },
  '@theinternetfolks/snowflake': () => folks(),
  '@theinternetfolks/snowflake, shard_id given': () => folks({ shard_id: 7 }),
  'nodejs-snowflake': () => {
    const { Snowflake } = require('nodejs-snowflake');
    const generator = new Snowflake();
    return () => generator.getUniqueID();
  },
  ulid: () => require('ulid').monotonicFactory(),
  hyperid: () => require('hyperid')(),
};
JS
cat >replica.mjs <<'JS'
import { makers } from './makers.mjs';

const make = makers[process.argv[2]]();
process.on('message', (start) => {
  const ids = [];
  const burst = () => {
    for (let index = 0; index < 20; index += 1) ids.push(String(make()));
    if (ids.length < 4000) setTimeout(burst, 2);
    else process.send(ids, () => process.exit());
  };
  setTimeout(burst, start - Date.now());
});
process.send('ready');
JS
cat >seen.mjs <<'JS'
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { makers } from './makers.mjs';

async function shared(name) {
  const replicas = [0, 1].map(() => fork('replica.mjs', [name]));
  await Promise.all(replicas.map((replica) => once(replica, 'message')));
  const answers = Promise.all(replicas.map((replica) => once(replica, 'message')));
  const start = Date.now() + 100;
  for (const replica of replicas) replica.send(start);
  const [[one], [other]] = await answers;
  const known = new Set(one);
  return other.some((id) => known.has(id)) ? 'share ids' : 'share none';
}
function repeated(make, count) {
  const ids = new Set();
  for (let index = 0; index < count; index += 1) ids.add(String(make()));
  const repetitions = count - ids.size;
  return repetitions === 0 ? 'repeats none' : repetitions < 1000 ? 'repeats ids' : 'repeats ids by the thousand';
}
for (const [name, maker] of Object.entries(makers)) {
  // snowflake-id waits for the clock, which takes a while for so many.
  const one = `one ${repeated(maker(), name === 'snowflake-id' ? 4000 : 100_000)}`;
  console.log(`${name}: ${name.startsWith('@theinternetfolks') ? '' : `two processes ${await shared(name)}, `}${one}`);
}
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 60 node seen.mjs)
echo "as described"
