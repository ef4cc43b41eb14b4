import { keepReport, type Row } from '../../../test/support/docs/figures/report.js';
import {
  RedisIdempotencyStore,
  openConnection,
  ownLink,
} from '../../../test/support/internals/redis.js';
import { LAST_READ_FIRST } from '../../../test/support/redis/scripts.js';
import { startRedis } from '../../../test/support/redis/redis-server.js';
import { beginCommand, completeCommand, leaseOf } from '../../../test/support/stores/commands.js';
import { closedLoop } from '../../bench/measuring/closed-loop.js';
import { RedisCpu } from '../../bench/measuring/redis-cpu.js';
import { median } from '../../bench/measuring/statistics.js';
import { fromCommandLine, valuesOf } from '../../command-line.js';

/**
 * From which size on SET and GET move a record for less CPU than the scripts: the number in lua-scripts.ts. Both ways
 * alternate in one run, on connections of the store.
 */
const KILOBYTES = [1, 2, 4, 6, 8, 12, 16, 32, 64];
const WARM_UP_ROUNDS = 2;
const IN_FLIGHT = 32;
const KNOWN_KEYS = 64;
const MOST_BYTES = 256 * 1024 ** 2;
const TIMEOUT_MS = 60_000;

const { report, rounds, ms } = fromCommandLine(
  'npm run lab -- measure large [--rounds 15] [--ms 200] [--report NAME]',
  valuesOf({ rounds: 15, ms: 200 }),
);
const redis = await startRedis();
const cpu = new RedisCpu([redis.url]);
const stores = { scripts: await open(10 * 1024 ** 2), 'SET and GET': await open() };
type Way = keyof typeof stores;
const WAYS = Object.keys(stores) as Way[];

const rows: Row[] = [];
for (const task of ['pair', 'replay'] as const) {
  for (const kilobytes of KILOBYTES) rows.push(await measure(task, kilobytes));
}
const version = await cpu.version();
cpu.close();
for (const store of Object.values(stores)) await store.close();
await redis.stop();
console.table(rows);
keepReport(report, 'measure large', [], { Redis: version }, rows);

async function open(largestInScripts = LAST_READ_FIRST): Promise<RedisIdempotencyStore> {
  const connect = async () => ownLink(await openConnection({ url: redis.url }));
  const store = new RedisIdempotencyStore({ connect, largestInScripts });
  await store.open();
  return store;
}

async function measure(task: 'pair' | 'replay', kilobytes: number): Promise<Row> {
  const body = Buffer.alloc(kilobytes * 1024, '{"id":"0123456789","amount":1990},');
  const found: Record<Way, { redisUs: number[]; cpuUs: number[] }> = {
    scripts: { redisUs: [], cpuUs: [] },
    'SET and GET': { redisUs: [], cpuUs: [] },
  };
  for (let round = -WARM_UP_ROUNDS; round < rounds; round += 1) {
    const order = round % 2 === 0 ? WAYS : [...WAYS].reverse();
    for (const way of order) {
      const sample = await run(stores[way], task, body);
      if (round < 0) continue;
      found[way].redisUs.push(sample.redisUs);
      found[way].cpuUs.push(sample.cpuUs);
    }
  }
  process.stderr.write(`${task} of ${kilobytes} KiB done\n`);
  const [before, after] = [found.scripts, found['SET and GET']];
  const ratio = (name: 'redisUs' | 'cpuUs') =>
    Number(median(after[name].map((us, i) => us / (before[name][i] ?? NaN))).toFixed(2));
  return {
    task,
    KiB: kilobytes,
    'Redis µs, scripts': Number(median(before.redisUs).toFixed(1)),
    'Redis µs, SET and GET': Number(median(after.redisUs).toFixed(1)),
    'ratio, Redis': ratio('redisUs'),
    'CPU µs, scripts': Number(median(before.cpuUs).toFixed(1)),
    'CPU µs, SET and GET': Number(median(after.cpuUs).toFixed(1)),
    'ratio, CPU': ratio('cpuUs'),
  };
}

async function run(store: RedisIdempotencyStore, task: 'pair' | 'replay', body: Buffer) {
  await cpu.flush();
  const pair = async () => {
    const begin = beginCommand({ timeoutMs: TIMEOUT_MS });
    const reply = await store.begin(begin);
    if (reply.kind !== 'acquired') throw new Error(`begin returned ${reply.kind}`);
    const outcome = { header: '[1,201,{"content-type":"application/json"}]', body };
    const command = completeCommand({ outcome, timeoutMs: TIMEOUT_MS });
    const { kind } = await store.complete(leaseOf(begin, reply.fence), command);
    if (kind !== 'ok') throw new Error(`complete returned ${kind}`);
    return begin.recordKey;
  };
  const known = task === 'pair' ? [] : await Promise.all(Array.from({ length: KNOWN_KEYS }, pair));
  let next = 0;
  const replay = async () => {
    const recordKey = known[(next += 1) % known.length]!;
    const { kind } = await store.begin(beginCommand({ recordKey, timeoutMs: TIMEOUT_MS }));
    if (kind !== 'completed') throw new Error(`begin returned ${kind}`);
  };
  const work = async () => {
    await (task === 'pair' ? pair() : replay());
  };
  const atMost = task === 'pair' ? Math.floor(MOST_BYTES / body.length) : Infinity;
  const before = await cpu.microseconds();
  const { count = NaN, cpuUs = NaN } = await closedLoop(work, { inFlight: IN_FLIGHT, ms, atMost });
  return { cpuUs, redisUs: ((await cpu.microseconds()) - before) / count };
}
