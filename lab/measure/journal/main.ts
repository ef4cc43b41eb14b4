/**
 * The CPU time that the journal adds in the server to a first request, which is begin and complete. Stores with and without
 * it alternate on one server, so that whatever else the machine does hits them alike; what counts are the ratios of one round.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { Redis } from 'ioredis';
import { postgresStore } from 'nestjs-idempotency/postgres';
import { redisStore } from 'nestjs-idempotency/redis';
import { Client } from 'pg';
import type { IdempotencyStore } from 'nestjs-idempotency';
import { keepReport, type Row } from '../../../test/support/docs/figures/report.js';
import { startPostgres } from '../../../test/support/postgres/postgres-server.js';
import { startRedis } from '../../../test/support/redis/redis-server.js';
import { beginCommand, completeCommand, leaseOf } from '../../../test/support/stores/commands.js';
import { closedLoop } from '../../bench/measuring/closed-loop.js';
import { RedisCpu } from '../../bench/measuring/redis-cpu.js';
import { median } from '../../bench/measuring/statistics.js';
import { argumentsOf, fromCommandLine, valuesOf } from '../../command-line.js';

const WARM_UP_ROUNDS = 2;
const IN_FLIGHT = 16;
const TIMEOUT_MS = 60_000;
/** Of /proc/PID/stat, on every Linux that Node runs on. */
const TICK_US = 10_000;
const BODY = Buffer.alloc(200, '{"id":"0123456789","amount":1990},');
/** Of the stream: short, so that entries are dropped while others are added. */
const LENGTH = 10_000;
const JOURNAL = { service: 'shop', version: '1.4.2' };

const { report, ...settings } = fromCommandLine(
  'npm run lab -- measure journal [--rounds 15] [--ms 1000] [--report NAME]',
  valuesOf({ rounds: 15, ms: 1_000 }),
);
const { rounds, ms } = settings;

interface Server {
  /** Microseconds of CPU time since its start. */
  readonly cpu: () => Promise<number>;
  /** Bytes of the journal, and its entries. */
  readonly journal: () => Promise<readonly [bytes: number, entries: number]>;
}

const table: Row[] = [];
const versions = { Redis: await measureRedis(), PostgreSQL: await measurePostgres() };
console.table(table);
keepReport(report, 'measure journal', argumentsOf(settings), versions, table);

async function measureRedis(): Promise<string> {
  const server = await startRedis();
  const { url } = server;
  const cpu = new RedisCpu([url]);
  const client = new Redis(url);
  const stores = [
    redisStore({ url }),
    redisStore({ url, keyPrefix: 'with', journal: { ...JOURNAL, maxLength: LENGTH } }),
  ] as const;
  await measure('Redis', stores, {
    cpu: () => cpu.microseconds(),
    journal: async () => [
      Number(await client.memory('USAGE', 'with:journal', 'SAMPLES', 0)),
      await client.xlen('with:journal'),
    ],
  });
  const version = await cpu.version();
  client.disconnect();
  cpu.close();
  await server.stop();
  return version;
}

async function measurePostgres(): Promise<string> {
  const server = await startPostgres({ settings: { fsync: 'on' } });
  const url = await server.newDatabase();
  const connection = { max: IN_FLIGHT };
  const stores = [
    postgresStore({ url, connection }),
    postgresStore({ url, connection, table: 'with_journal', journal: JOURNAL }),
  ] as const;
  for (const store of stores) await store.migrate();
  const client = new Client({ connectionString: url });
  await client.connect();
  const first = async <Value>(text: string): Promise<Value> => {
    const { rows: found } = await client.query<{ value: Value }>(text);
    return found[0]!.value;
  };
  const postmaster = parentOf(await first<number>('SELECT pg_backend_pid() AS value'));
  await measure('PostgreSQL', stores, {
    cpu: () => Promise.resolve(ticksOf(postmaster) * TICK_US),
    journal: async () => [
      Number(await first("SELECT pg_total_relation_size('idempotency_journal') AS value")),
      Number(await first('SELECT count(*) AS value FROM idempotency_journal')),
    ],
  });
  const version = await first<string>("SELECT current_setting('server_version') AS value");
  await client.end();
  await server.stop();
  return version;
}

async function measure(
  name: string,
  [without, journaled]: readonly [IdempotencyStore, IdempotencyStore],
  server: Server,
): Promise<void> {
  const found = { without: [] as number[], journaled: [] as number[] };
  for (let round = -WARM_UP_ROUNDS; round < rounds; round += 1) {
    const order = [
      { store: without, us: found.without },
      { store: journaled, us: found.journaled },
    ];
    for (const { store, us } of round % 2 === 0 ? order : order.reverse()) {
      const before = await server.cpu();
      const { count = NaN } = await closedLoop(() => pair(store), { inFlight: IN_FLIGHT, ms });
      if (round >= 0) us.push(((await server.cpu()) - before) / count);
    }
  }
  const ratios = found.journaled.map((us, round) => us / (found.without[round] ?? NaN));
  const [bytes, entries] = await server.journal();
  table.push({
    store: name,
    'CPU µs, without': tenths(median(found.without)),
    'CPU µs, with': tenths(median(found.journaled)),
    'ratio, median': hundredths(median(ratios)),
    min: hundredths(Math.min(...ratios)),
    max: hundredths(Math.max(...ratios)),
    'bytes of an entry': Math.round(bytes / entries),
  });
  for (const store of [without, journaled]) await store.close();
}

async function pair(store: IdempotencyStore): Promise<void> {
  const begin = beginCommand({ timeoutMs: TIMEOUT_MS });
  const reply = await store.begin(begin);
  if (reply.kind !== 'acquired') throw new Error(`begin returned ${reply.kind}`);
  const outcome = { header: '[1,201,{"content-type":"application/json"}]', body: BODY };
  const command = completeCommand({ outcome, timeoutMs: TIMEOUT_MS });
  const { kind } = await store.complete(leaseOf(begin, reply.fence), command);
  if (kind !== 'ok') throw new Error(`complete returned ${kind}`);
}

/** The fields of a process after its name, which may contain spaces. */
function statOf(pid: number | string): readonly number[] {
  const text = readFileSync(`/proc/${String(pid)}/stat`, 'utf8');
  return text
    .slice(text.lastIndexOf(')') + 2)
    .split(' ')
    .map(Number);
}

function parentOf(pid: number): number {
  return statOf(pid)[1] ?? NaN;
}

/** CPU time of a server and its processes, also of those that have ended. */
function ticksOf(postmaster: number): number {
  let ticks = 0;
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const stat = statOf(name);
      if (Number(name) !== postmaster && stat[1] !== postmaster) continue;
      const own = stat.slice(11, 13);
      const ended = Number(name) === postmaster ? stat.slice(13, 15) : [];
      ticks += [...own, ...ended].reduce((sum, each) => sum + each, 0);
    } catch {
      // The process has ended meanwhile.
    }
  }
  return ticks;
}

function tenths(value: number): number {
  return Number(value.toFixed(1));
}

function hundredths(value: number): number {
  return Number(value.toFixed(2));
}
