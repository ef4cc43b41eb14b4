/**
 * What it costs to find one record among a million: by its key, beside a bare read of the same client, and by a pass over all
 * of them. The two ways of reading alternate, so that whatever else the machine does hits them alike.
 */
import { Cluster } from 'ioredis';
import {
  IdempotencyRecords,
  IdempotencyService,
  Idempotent,
  type IdempotencyStore,
} from 'nestjs-idempotency';
import { fromPg } from 'nestjs-idempotency/pg';
import { migrate, PostgresIdempotencyStore } from 'nestjs-idempotency/postgres';
import { redisStore } from 'nestjs-idempotency/redis';
import { Pool } from 'pg';
import { keepReport, type Row } from '../../../test/support/docs/figures/report.js';
import { callingApp } from '../../../test/support/nest/calling-app.js';
import { startPostgres } from '../../../test/support/postgres/postgres-server.js';
import { RedisCluster } from '../../../test/support/redis/redis-cluster.js';
import { RedisCpu } from '../../bench/measuring/redis-cpu.js';
import { median } from '../../bench/measuring/statistics.js';
import { argumentsOf, fromCommandLine, valuesOf } from '../../command-line.js';
import { fillCluster, fillPostgres } from './fill.js';

const USAGE =
  'npm run lab -- measure records [--records N] [--rounds N] [--seconds N] [--report NAME]';
const { report, ...settings } = fromCommandLine(
  USAGE,
  valuesOf({ records: 1_000_000, rounds: 15, seconds: 20 }),
);
const { records: count, rounds, seconds } = settings;

const FINDS = 100;
/** Of the store's keys. */
const PREFIX = 'idem:1:';
const SCOPE = 'alice';
const OPERATION = 'settle';
/** What an application may have: the key may be that of any of them. */
class Operations {
  @Idempotent({ operation: OPERATION, key: () => 'key', scope: () => SCOPE })
  settle() {
    return Promise.resolve('settled');
  }
}
for (let at = 1; at < 20; at += 1) {
  const operation = `operation-${String(at)}`;
  const method = { value: () => Promise.resolve('done'), configurable: true, writable: true };
  const options = { operation, key: () => 'key', scope: () => SCOPE };
  Idempotent(options)(Operations.prototype, operation, method);
  Object.defineProperty(Operations.prototype, operation, method);
}

interface Place {
  readonly store: IdempotencyStore;
  /** The name of the server, and its version. */
  readonly server: readonly [name: string, version: string];
  /** Copies a record under other names. */
  readonly fill: (recordKey: string) => Promise<void>;
  readonly read: (recordKey: string) => Promise<unknown>;
  /** Microseconds of the servers' CPU, if they count them. */
  readonly cpu?: () => Promise<number>;
  readonly stop: () => Promise<void>;
}

const table: Row[] = [];
const servers: Record<string, string> = {};
for (const open of [openCluster, openPostgres]) {
  const place = await open();
  servers[place.server[0]] = place.server[1];
  try {
    table.push(...(await measured(place)));
  } finally {
    await place.stop();
  }
}
console.table(table);
keepReport(report, 'measure records', argumentsOf(settings), servers, table);

async function measured({ store, server: [on], fill, read, cpu }: Place): Promise<Row[]> {
  const { nest } = await callingApp({ providers: [Operations] }, { store, service: 'shop' });
  const service = nest.get(IdempotencyService, { strict: false });
  const records = nest.get(IdempotencyRecords, { strict: false });
  const keys = Array.from({ length: FINDS }, (_, at) => `key-${String(at)}`);
  const call = { operation: OPERATION, scope: SCOPE };
  const recordKeys: string[] = [];
  for (const key of keys) {
    await service.run({ ...call, key }, () => ({ charge: key }));
    const [sheet] = await records.find({ key, ...call });
    if (sheet === undefined) throw new Error(`${on} has lost ${key}.`);
    recordKeys.push(sheet.recordKey);
  }
  console.error(`${on}: fills`);
  await fill(recordKeys[0] ?? '');
  const find = (query: object) => async () => {
    for (const key of keys) {
      const found = await records.find({ key, scope: SCOPE, ...query });
      if (found.length !== 1) throw new Error(`${on} finds ${String(found.length)} records.`);
    }
  };
  const ways = {
    read: async () => {
      for (const recordKey of recordKeys) await read(recordKey);
    },
    known: find({ operation: OPERATION }),
    unknown: find({}),
  };
  const times = { read: [] as number[], known: [] as number[], unknown: [] as number[] };
  // The first round warms up.
  for (let round = 0; round <= rounds; round += 1) {
    for (const name of ['read', 'known', 'unknown'] as const) {
      const startedAt = performance.now();
      await ways[name]();
      if (round > 0) times[name].push((performance.now() - startedAt) / FINDS);
    }
  }
  const ratio = (name: 'known' | 'unknown') =>
    median(times[name].map((ms, at) => ms / (times.read[at] ?? NaN)));
  console.error(`${on}: looks at all`);
  const startedAt = performance.now();
  const page = await records.list({ lease: 'over' });
  const pageMs = performance.now() - startedAt;
  const sharesOfCore = async () => {
    const [cpuBefore, before] = [await cpu?.(), performance.now()];
    await new Promise((resolve) => setTimeout(resolve, seconds * 1_000));
    const used = ((await cpu?.()) ?? NaN) - (cpuBefore ?? NaN);
    return used / ((performance.now() - before) * 1_000);
  };
  // What the servers of a Cluster do without it.
  const idle = await sharesOfCore();
  // None is abandoned: it goes on for as long as it is measured, at its own pace, and until it has seen all of them.
  void records.plan('complete', { lease: 'over' }).catch(() => undefined);
  const share = (await sharesOfCore()) - idle;
  await nest.close();
  return [
    {
      store: on,
      records: count,
      'bare read, ms': hundredths(median(times.read)),
      'find ÷ read, at most 5': hundredths(ratio('known')),
      'operation unknown ÷ read': hundredths(ratio('unknown')),
      'a page looks at': page.scanned,
      'and takes, ms': hundredths(pageMs),
      'a pass, of one core': Number.isNaN(share) ? '-' : percent(share),
    },
  ];
}

async function openCluster(): Promise<Place> {
  const cluster = await RedisCluster.start({
    replicas: 0,
    args: ['--save', '', '--appendonly', 'no'],
  });
  const client = new Cluster(cluster.addresses);
  const cpu = new RedisCpu(cluster.nodes.map(({ url }) => url));
  return {
    store: redisStore({ client }),
    server: ['Redis Cluster', await cpu.version()],
    fill: (recordKey) => fillCluster(cluster.addresses, PREFIX, recordKey, count),
    read: (recordKey) => client.getBuffer(PREFIX + recordKey),
    cpu: () => cpu.microseconds(),
    stop: async () => {
      cpu.close();
      client.disconnect();
      await cluster.stop();
    },
  };
}

async function openPostgres(): Promise<Place> {
  const server = await startPostgres({ settings: { fsync: 'off' } });
  const url = await server.newDatabase();
  const pool = new Pool({ connectionString: url });
  pool.on('error', () => undefined);
  await migrate({ executor: fromPg(pool) });
  const { rows } = await pool.query<{ server_version: string }>('SHOW server_version');
  const select = {
    name: 'by-key',
    text: 'SELECT * FROM idempotency_records WHERE record_key = $1',
  };
  return {
    store: new PostgresIdempotencyStore({ client: pool }),
    server: ['PostgreSQL', rows[0]?.server_version ?? ''],
    fill: (recordKey) => fillPostgres(pool, recordKey, count),
    read: (recordKey) => pool.query({ ...select, values: [Buffer.from(recordKey, 'base64url')] }),
    stop: async () => {
      await pool.end();
      await server.stop();
    },
  };
}

function hundredths(value: number): string {
  return value.toFixed(2);
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`;
}
