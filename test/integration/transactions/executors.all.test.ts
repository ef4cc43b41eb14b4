import { randomBytes } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { PrismaPg } from '@prisma/adapter-pg';
import { drizzle as openDrizzle } from 'drizzle-orm/node-postgres';
import { drizzle as openDrizzleOnPostgresJs } from 'drizzle-orm/postgres-js';
import openKnex from 'knex';
import { PostgresDialect } from 'kysely';
import { IdempotencyOptionsError } from 'nestjs-idempotency';
import { fromDrizzle } from 'nestjs-idempotency/drizzle';
import { fromKnex } from 'nestjs-idempotency/knex';
import { fromKysely } from 'nestjs-idempotency/kysely';
import { fromPg } from 'nestjs-idempotency/pg';
import {
  migrate,
  postgresBlobs,
  PostgresIdempotencyStore,
  postgresStore,
} from 'nestjs-idempotency/postgres';
import { fromPrisma } from 'nestjs-idempotency/prisma';
import { describeStoreConformance } from 'nestjs-idempotency/testing/store';
import { fromTypeOrm } from 'nestjs-idempotency/typeorm';
import { Client, type Pool } from 'pg';
import postgres from 'postgres';
import { PostgresHarness } from '../../conformance/postgres-under-test.js';
import { inStandingTime } from '../../support/clocks/driven-time.js';
import {
  StoreConfigurationError,
  StoreOutcomeUnknownError,
  StoreUnavailableError,
} from '../../support/internals/core.js';
import { afterTest, closeAfterTest } from '../../support/jest/after-test.js';
import { rejection } from '../../support/nest/calling-app.js';
import { openPostgresPool } from '../../support/postgres/postgres-pool.js';
import { embeddedPostgres } from '../../support/postgres/postgres-servers.js';
import { loadPrismaClient } from '../../support/postgres/prisma/generate-client.js';
import { ShiftingRelay } from '../../support/postgres/shifting-relay.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { TcpRelay } from '../../support/servers/tcp-relay.js';
import {
  beginCommand,
  completeCommand,
  extendCommand,
  leaseOf,
} from '../../support/stores/commands.js';
import { until } from '../../support/waiting/until.js';
import { never, newName, put } from '../blobs/support/blobs.js';
import { executors } from './adapters/executors.js';

const TIMEOUT_MS = 10_000;

/** In standing time: enough for the first attempt, and too little for another one. */
const ONE_ATTEMPT_MS = 21;

const server = usePostgres();

describe.each(executors)('the executor of $name', ({ name, kind, open }) => {
  const harness = new PostgresHarness({ ...embeddedPostgres, name }, undefined, (url) =>
    open(url, 5),
  );
  describeStoreConformance({ describe, it }, harness.underTest);
  afterAll(() => harness.close());

  let url: string;
  let observer: Pool;

  beforeAll(async () => {
    url = await server.newDatabase({ default_transaction_isolation: 'repeatable read' });
    await migrate({ url });
    await postgresBlobs({ url }).migrate();
    observer = openPostgresPool(url);
  });
  beforeEach(() => observer.query('TRUNCATE idempotency_records'));
  afterAll(() => observer.end());

  async function lent(at = url, connections = 1) {
    const opened = await open(at, connections);
    afterTest(() => opened.close());
    const { executor, hold } = opened;
    const store = new PostgresIdempotencyStore({ client: executor });
    return { executor, hold, store };
  }

  async function acquired(store: PostgresIdempotencyStore) {
    const begin = beginCommand({ timeoutMs: TIMEOUT_MS });
    const reply = await store.begin(begin);
    expect(reply.kind).toBe('acquired');
    return { begin, lease: leaseOf(begin, 'fence' in reply ? reply.fence : -1) };
  }

  const count = async () =>
    (await observer.query<{ count: number }>('SELECT count(*)::integer FROM idempotency_records'))
      .rows[0]!.count;

  /** Lets a statement wait for a lock, and then does something to its backend. */
  async function whileItWaits<Result>(
    lock: string,
    statement: () => Promise<Result>,
    act: (holder: Client, pid: number) => Promise<unknown>,
  ): Promise<PromiseSettledResult<Result>> {
    const holder = new Client(url);
    await holder.connect();
    try {
      await holder.query('BEGIN');
      await holder.query(lock);
      const [outcome] = await Promise.all([
        Promise.allSettled([statement()]),
        (async () => {
          let pids: number[] = [];
          await until(async () => {
            const { rows } = await observer.query<{ pid: number }>(
              `SELECT pid FROM pg_stat_activity
               WHERE datname = current_database() AND wait_event_type = 'Lock'`,
            );
            pids = rows.map(({ pid }) => pid);
            return pids.length === 1;
          });
          await act(holder, pids[0]!);
        })(),
      ]);
      return outcome[0];
    } finally {
      await holder.end();
    }
  }

  const LOCK_TABLE = 'LOCK TABLE idempotency_records IN ACCESS EXCLUSIVE MODE';

  describe('knows by the SQLSTATE', () => {
    it('that a cancelled statement (57014) did not run', async () => {
      const { store } = await lent();
      await acquired(store);
      await inStandingTime(async () => {
        const begin = beginCommand({ timeoutMs: ONE_ATTEMPT_MS });
        const begun = await whileItWaits(
          LOCK_TABLE,
          () => store.begin(begin),
          (holder, pid) => holder.query('SELECT pg_cancel_backend($1)', [pid]),
        );
        expect(begun).toMatchObject({ reason: expect.any(StoreUnavailableError) });
      });
      expect(await count()).toBe(1);
    });

    it('that a conflict (40001) undid the statement', async () => {
      const { store } = await lent();
      const { lease } = await acquired(store);
      await inStandingTime(async () => {
        const extended = await whileItWaits(
          'UPDATE idempotency_records SET attempt = attempt',
          () => store.extend(lease, extendCommand({ timeoutMs: ONE_ATTEMPT_MS })),
          (holder) => holder.query('COMMIT'),
        );
        expect(extended).toMatchObject({ reason: expect.any(StoreUnavailableError) });
      });
      expect(await store.extend(lease, extendCommand())).toEqual({ kind: 'ok' });
    });

    it('that a terminated statement (57P01) may have run', async () => {
      const { store } = await lent();
      await acquired(store);
      await inStandingTime(async () => {
        const begun = await whileItWaits(
          LOCK_TABLE,
          () => store.begin(beginCommand({ timeoutMs: ONE_ATTEMPT_MS })),
          (holder, pid) => holder.query('SELECT pg_terminate_backend($1)', [pid]),
        );
        expect(begun).toMatchObject({ reason: expect.any(StoreOutcomeUnknownError) });
      });
    });

    it('that a constraint (23505) is a mistake of the table, without a value of the row', async () => {
      const { store } = await lent();
      await observer.query('CREATE UNIQUE INDEX one_at_a_time ON idempotency_records (state)');
      afterTest(() => observer.query('DROP INDEX one_at_a_time'));
      await acquired(store);
      const begin = beginCommand({ timeoutMs: TIMEOUT_MS });
      const error = await rejection(store.begin(begin));
      expect(error).toBeInstanceOf(StoreConfigurationError);
      expect(error.message).toBe('duplicate key value violates unique constraint "one_at_a_time"');
    });

    it('that the table is missing (42P01), and says what to do', async () => {
      const { store } = await lent(await server.newDatabase());
      const error = await rejection(store.begin(beginCommand({ timeoutMs: TIMEOUT_MS })));
      expect(error).toBeInstanceOf(StoreConfigurationError);
      expect(error.message).toMatch(/^relation .+ does not exist\. Run the migrations: /);
    });
  });

  it('sends a command again whose connection broke before the reply (08006)', async () => {
    const relay = closeAfterTest(await TcpRelay.start(server.port));
    const { store } = await lent(relay.through(url));
    await acquired(store);
    relay.breakAtNextReply();
    const begin = beginCommand({ timeoutMs: TIMEOUT_MS });
    const begun = await store.begin(begin);
    expect(begun).toMatchObject({ kind: 'owned', attempt: 1 });
    relay.breakAtNextReply();
    const lease = leaseOf(begin, 'fence' in begun ? begun.fence : -1);
    expect(await store.complete(lease, completeCommand({ timeoutMs: TIMEOUT_MS }))).toEqual({
      kind: 'already',
    });
  });

  it('knows that nothing was sent to a server that does not listen', async () => {
    const relay = await TcpRelay.start(server.port);
    const { store } = await lent(relay.through(url));
    await acquired(store);
    await relay.stop();
    // It finds that the pool's connection is lost.
    await rejection(store.begin(beginCommand({ timeoutMs: 200 })));
    const error = await rejection(store.begin(beginCommand({ timeoutMs: 500 })));
    expect(error).toBeInstanceOf(StoreUnavailableError);
    expect((await store.open()).map(({ code }) => code)).toEqual(['postgres_unreachable']);
    await store.close();
  });

  it('waits for a connection of the application no longer than its command may take', async () => {
    const { store, hold } = await lent();
    const giveBack = await hold();
    const notAfter = Date.now() + 300;
    const begin = beginCommand({ timeoutMs: 200, notAfter });
    const error = await rejection(store.begin(begin));
    // Prisma does not say whether a statement waits for a connection or for its reply.
    const expected = kind === 'statement' ? StoreOutcomeUnknownError : StoreUnavailableError;
    expect(error).toBeInstanceOf(expected);
    await until(() => Date.now() > notAfter + 1);
    await giveBack();
    // It comes after what was still waiting, on the only connection.
    await acquired(store);
    expect(await store.inspect(begin.recordKey, { timeoutMs: TIMEOUT_MS })).toBeUndefined();
  });

  it('rejects the reply of another statement, and closes its connection', async () => {
    const relay = closeAfterTest(await ShiftingRelay.start(server.port));
    const { store, hold } = await lent(relay.through(url));
    await acquired(store);
    relay.shiftAt(kind === 'driver' ? 'idempotency_begin_' : 'INSERT INTO');
    const begin = beginCommand({ timeoutMs: TIMEOUT_MS });
    await expect(store.begin(begin)).rejects.toMatchObject({
      code: 'idempotency_store_reply_mismatched',
    });
    expect(relay.shifts).toBe(1);
    // Nor does the application get that connection.
    const giveBack = await hold();
    await giveBack();
    await acquired(store);
    expect(await store.inspect(begin.recordKey, { timeoutMs: TIMEOUT_MS })).toMatchObject({
      state: 'in_progress',
    });
  });

  it('says at the start what it cannot do', async () => {
    const { executor } = await lent();
    expect(executor.kind).toBe(kind);
    const codes = async (options: object) => {
      const store = postgresStore({ executor, ...options });
      const warnings = await store.open();
      await store.close();
      return warnings.map(({ code }) => code).filter((code) => code !== 'postgres_not_durable');
    };
    const unlimited = kind === 'driver' ? [] : ['postgres_statements_unlimited'];
    expect(await codes({})).toEqual([...unlimited, 'postgres_waiters_poll']);
    expect(await codes({ push: false })).toEqual(unlimited);
    expect(await codes({ listenUrl: url })).toEqual(unlimited);
    const named = () => postgresStore({ executor, preparedStatements: true });
    if (kind === 'driver') expect(named).not.toThrow();
    else expect(named).toThrow(`${executor.name} sends statements without names`);
  });

  it('runs the migrations, or refuses to', async () => {
    const { store } = await lent(await server.newDatabase());
    if (kind === 'statement') {
      await expect(store.migrate()).rejects.toThrow('Run npx nestjs-idempotency migrate');
    } else {
      expect((await store.migrate()).length).toBeGreaterThan(0);
      expect(await store.migrate()).toEqual([]);
    }
  });

  it('lends connections to blobs', async () => {
    const { executor } = await lent();
    const blobs = postgresBlobs({ executor, chunkBytes: 4_096 });
    await blobs.open();
    afterTest(() => blobs.close());
    const name = newName();
    const bytes = randomBytes(10_000);
    await put(blobs, name, bytes);
    expect(await buffer((await blobs.get(name, { signal: never }))!)).toEqual(bytes);
  });
});

it('A pool that the application opens for Prisma serves the store by fromPg, with names', async () => {
  const url = await server.newDatabase();
  const pool = openPostgresPool(url, { max: 1 });
  const PrismaClient = await loadPrismaClient();
  const client = new PrismaClient({ adapter: new PrismaPg(pool) });
  afterTest(async () => {
    await client.$disconnect();
    await pool.end();
  });
  const executor = fromPg(pool);
  await migrate({ executor });
  const store = postgresStore({ executor, push: false });
  await store.open();
  expect((await store.begin(beginCommand())).kind).toBe('acquired');
  const names = 'SELECT count(*)::integer FROM pg_prepared_statements';
  expect(await client.$queryRawUnsafe(names)).toEqual([{ count: expect.any(Number) }]);
  expect((await pool.query<{ count: number }>(names)).rows[0]!.count).toBeGreaterThan(0);
  await store.close();
});

describe('An executor is made', () => {
  const pool = openPostgresPool('postgres://127.0.0.1/shop');
  const sql = postgres('postgres://127.0.0.1/shop');

  it.each<[string, () => unknown, string]>([
    ['of a Pool, not a Client', () => fromPg(new Client() as never), 'fromPg: the pool must be'],
    [
      'of a DataSource of PostgreSQL',
      () => fromTypeOrm({ options: { type: 'mysql' } } as never),
      'with type "postgres"',
    ],
    ['of an instance of PrismaClient', () => fromPrisma(pool as never), 'a generated PrismaClient'],
    ['of a Kysely', () => fromKysely(new PostgresDialect({ pool }) as never), 'must be a Kysely'],
    ['of Knex on pg', () => fromKnex(openKnex({ client: 'mysql' })), "knex({ client: 'pg', … })"],
    [
      'of Drizzle on a Pool',
      () => fromDrizzle(openDrizzle(new Client())),
      'not on a single Client',
    ],
    ['of Drizzle on pg', () => fromDrizzle(openDrizzleOnPostgresJs(sql)), 'db is on postgres.js'],
    [
      'for a store, which takes no pool',
      () => postgresStore({ executor: pool as never }),
      '{ executor: fromPg(pool) }',
    ],
    [
      'for a store, not a client',
      () => postgresStore({ client: pool } as never),
      '{ executor: fromPg(pool) }',
    ],
  ])('%s', (_, create, message) => {
    expect(create).toThrow(IdempotencyOptionsError);
    expect(create).toThrow(message);
  });
});
