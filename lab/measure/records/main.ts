/** What a record takes of Redis' memory, and of PostgreSQL's disk, by the size of its response. */
import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';
import { Client } from 'pg';
import type { IdempotencyStore } from 'nestjs-idempotency';
import type { Lease } from 'nestjs-idempotency/store';
import { postgresStore } from 'nestjs-idempotency/postgres';
import { redisStore } from 'nestjs-idempotency/redis';
import { keepReport } from '../../../test/support/docs/figures/keep-report.js';
import type { Row } from '../../../test/support/docs/figures/report.js';
import { startPostgres } from '../../../test/support/postgres/postgres-server.js';
import { startRedis } from '../../../test/support/redis/redis-server.js';
import { beginCommand, completeCommand, leaseOf } from '../../../test/support/stores/commands.js';
import { argumentsOf, fromCommandLine, valuesOf } from '../../command-line.js';

const BODY_BYTES = [0, 200, 1_000, 4_000, 16_000];
/** As a response is stored. */
const HEADER = JSON.stringify([
  1,
  201,
  {
    'content-type': 'application/json; charset=utf-8',
    location: '/payments/0d2f6a1c',
    etag: 'W/"c8-9sT4hX0mWkQ2bJ6uYpLrVfA1dEc"',
  },
]);
const AT_ONCE = 100;

const USAGE = 'npm run lab -- measure records [--records N] [--report NAME]';
const { report, ...load } = fromCommandLine(USAGE, valuesOf({ records: 20_000 }));

async function begin(store: IdempotencyStore): Promise<Lease> {
  const command = beginCommand({ leaseMs: 300_000, timeoutMs: 60_000 });
  const reply = await store.begin(command);
  if (reply.kind !== 'acquired') throw new Error(`The begin returned ${reply.kind}.`);
  return leaseOf(command, reply.fence);
}

/** @returns the leases of running records. */
async function beginAll(store: IdempotencyStore): Promise<Lease[]> {
  const leases: Lease[] = [];
  while (leases.length < load.records) {
    leases.push(...(await Promise.all(Array.from({ length: AT_ONCE }, () => begin(store)))));
  }
  return leases;
}

async function completeAll(
  store: IdempotencyStore,
  leases: readonly Lease[],
  bodyBytes: number,
): Promise<void> {
  for (let from = 0; from < leases.length; from += AT_ONCE) {
    const some = leases.slice(from, from + AT_ONCE);
    await Promise.all(some.map((lease) => complete(store, lease, bodyBytes)));
  }
}

async function complete(store: IdempotencyStore, lease: Lease, bodyBytes: number): Promise<void> {
  // As text that does not compress.
  const body = Buffer.from(randomBytes(bodyBytes).toString('base64').slice(0, bodyBytes));
  const outcome = { header: HEADER, body };
  const { kind } = await store.complete(lease, completeCommand({ outcome, timeoutMs: 60_000 }));
  if (kind !== 'ok') throw new Error(`The completion returned ${kind}.`);
}

const perRecord = (bytes: number) => Math.round(bytes / load.records);

async function inRedis(bodyBytes: number) {
  const server = await startRedis();
  const client = new Redis(server.url);
  const store = redisStore({ url: server.url });
  const used = async () => Number(/used_memory:(\d+)/.exec(await client.info('memory'))?.[1]);
  try {
    await store.open();
    // The scripts and the connections are not the records'.
    await completeAll(store, [await begin(store)], bodyBytes);
    await client.flushall('SYNC');
    const empty = await used();
    const leases = await beginAll(store);
    const running = perRecord((await used()) - empty);
    await completeAll(store, leases, bodyBytes);
    const version = /redis_version:(\S+)/.exec(await client.info('server'))?.[1] ?? '';
    return { running, done: perRecord((await used()) - empty), version };
  } finally {
    await store.close();
    client.disconnect();
    await server.stop();
  }
}

async function inPostgres(bodyBytes: number) {
  const server = await startPostgres({ settings: { autovacuum: 'off' } });
  const url = await server.newDatabase();
  const client = new Client(url);
  const store = postgresStore({ url, deleteExpired: false });
  try {
    await client.connect();
    await store.migrate();
    await completeAll(store, await beginAll(store), bodyBytes);
    await client.query('VACUUM FULL public.idempotency_records');
    const { rows } = await client.query<Record<'whole' | 'indexes' | 'version', string>>(
      `SELECT pg_total_relation_size('public.idempotency_records') AS whole,
        pg_indexes_size('public.idempotency_records') AS indexes,
        current_setting('server_version') AS version`,
    );
    const [{ whole, indexes, version }] = rows as [(typeof rows)[0]];
    return { done: perRecord(Number(whole)), indexes: perRecord(Number(indexes)), version };
  } finally {
    await store.close();
    await client.end();
    await server.stop();
  }
}

const versions: Record<string, string> = {};
const table: Row[] = [];
for (const bodyBytes of BODY_BYTES) {
  const redis = await inRedis(bodyBytes);
  const postgres = await inPostgres(bodyBytes);
  Object.assign(versions, { Redis: redis.version, PostgreSQL: postgres.version });
  table.push({
    'body, B': bodyBytes,
    'Redis, running, B': redis.running,
    'Redis, done, B': redis.done,
    'PostgreSQL, done, B': postgres.done,
    'of it indexes, B': postgres.indexes,
  });
}
console.table(table);
keepReport(report, 'measure records', argumentsOf(load), versions, table);
