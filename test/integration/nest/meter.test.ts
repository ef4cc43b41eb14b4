import { randomUUID } from 'node:crypto';
import { Controller, Get, Injectable, Post } from '@nestjs/common';
import { describe, expect, it } from '@jest/globals';
import {
  IdempotencyMeter,
  type IdempotencyModuleOptions,
  IdempotencyReconciler,
  IdempotencyService,
  type IdempotencyStore,
  Idempotent,
  isIdempotencyError,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { pgUnitOfWork } from 'nestjs-idempotency/pg';
import { postgresStore } from 'nestjs-idempotency/postgres';
import { redisStore } from 'nestjs-idempotency/redis';
import type * as Store from 'nestjs-idempotency/store';
import { DelegatingStore } from 'nestjs-idempotency/store';
import { PostgresUnitOfWork } from 'nestjs-idempotency/transactions';
import { callingApp } from '../../support/nest/calling-app.js';
import { abandon, recordOf } from '../../support/engine/abandon.js';
import { afterTest } from '../../support/jest/after-test.js';
import { openPostgresPool } from '../../support/postgres/postgres-pool.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { RedisNode } from '../../support/redis/redis-node.js';
import { useRedis } from '../../support/redis/use-redis.js';
import { useServer } from '../../support/servers/use-server.js';
import { Gate } from '../../support/waiting/gate.js';
import { until } from '../../support/waiting/until.js';

@Controller()
class Payments {
  @Post()
  @Idempotent({ operation: 'pay' })
  pay(): void {
    // Never called.
  }

  /** Safe, so never protected. */
  @Get()
  @Idempotent({ operation: 'list' })
  list(): void {
    // Never called.
  }
}

@Injectable()
class Invoices {
  @Idempotent({ operation: 'send', key: (id: string) => id })
  async send(_: string): Promise<void> {
    await Promise.resolve();
  }
}

it('knows the operations of handlers and methods, and registered ones, before their first request', async () => {
  const app = await callingApp(
    { controllers: [Payments], providers: [Invoices] },
    { store: memoryStore(), breaker: true },
  );
  const meter = app.nest.get(IdempotencyMeter, { strict: false });
  const reconciler = app.nest.get(IdempotencyReconciler, { strict: false });
  reconciler.register('settle', { lease: { onTakeover: () => 'run' } });
  const { operations, store } = meter.read();
  const requests = [...operations].map(([name, reading]) => [name, reading.requests]);
  expect(requests).toEqual([
    ['pay', { http: { unprotected: 0 } }],
    ['send', { call: { unprotected: 0 } }],
    ['settle', { call: { unprotected: 0 } }],
  ]);
  expect(store.breaker).toBe('closed');
  await app.nest.close();
});

it('says once in the log that it counts further operations together, without their names', async () => {
  const app = await callingApp({});
  const meter = app.nest.get(IdempotencyMeter, { strict: false });
  const service = app.nest.get(IdempotencyService, { strict: false });
  const names = Array.from({ length: 203 }, (_, index) => `invoice ${index}`);
  for (const operation of names) await service.run({ operation, key: 'k', scope: 's' }, () => 1);
  const { operations } = meter.read();
  expect(operations.size).toBe(201);
  expect(operations.get('_OTHER')!.requests.call!.executed).toBe(3);
  const lines = app.log.own.filter((line) => line.includes('idempotency_too_many_operations'));
  expect(lines).toEqual([expect.stringMatching(/^warn: The meter counts 200 operations by name/)]);
  expect(lines[0]).not.toContain('invoice');
  await app.nest.close();
});

/** Notes every command but `inspect`, which only probes send, and how it ended. */
class RecordingStore extends DelegatingStore {
  /** By command and, if it failed, error code. */
  readonly ended: Record<string, number> = {};

  override begin(command: Store.Begin) {
    return this.noted('begin', () => super.begin(command));
  }

  override extend(lease: Store.Lease, command: Store.Extend) {
    return this.noted('extend', () => super.extend(lease, command));
  }

  override complete(lease: Store.Lease, command: Store.Complete) {
    return this.noted('complete', () => super.complete(lease, command));
  }

  override release(lease: Store.Lease, command: Store.Release) {
    return this.noted('release', () => super.release(lease, command));
  }

  override watch(...args: Parameters<IdempotencyStore['watch']>) {
    return this.noted('watch', () => super.watch(...args));
  }

  override abandoned(command: Store.Abandoned) {
    return this.noted('abandoned', () => super.abandoned(command));
  }

  override get transactional(): Store.TransactionalRecords | undefined {
    const records = super.transactional;
    return (
      records && {
        lock: (...args) => this.noted('transaction_lock', () => records.lock(...args)),
        complete: (...args) => this.noted('transaction_complete', () => records.complete(...args)),
        ended: (...args) => this.noted('transaction_ended', () => records.ended(...args)),
        committed: (...args) => {
          records.committed(...args);
        },
      }
    );
  }

  private async noted<Reply>(command: string, send: () => Promise<Reply>): Promise<Reply> {
    const note = (name: string) => (this.ended[name] = (this.ended[name] ?? 0) + 1);
    try {
      const reply = await send();
      note(command);
      return reply;
    } catch (error) {
      note(`${command} ${isIdempotencyError(error) ? error.code : '_OTHER'}`);
      throw error;
    }
  }
}

async function start(real: IdempotencyStore, options: Partial<IdempotencyModuleOptions> = {}) {
  const store = new RecordingStore(real);
  const app = await callingApp({}, { store, ...options });
  afterTest(() => app.nest.close());
  const get: typeof app.nest.get = (token: never) => app.nest.get(token, { strict: false });
  const meter = get(IdempotencyMeter);
  const service = get(IdempotencyService);
  const commands = () => meter.read().store.commands;
  return {
    store,
    meter,
    reconciler: get(IdempotencyReconciler),
    run: (key: string, work: () => unknown, options: object = {}) =>
      service.run({ operation: 'pay', key, scope: 'alice', ...options }, work),
    commands,
    /** As {@link RecordingStore.ended}. */
    counted: () =>
      Object.fromEntries(
        commands().map(({ command, errorType, duration }) => [
          [command, errorType].filter(Boolean).join(' '),
          duration.count,
        ]),
      ),
  };
}

const failing = () => {
  throw new Error('planned');
};

const redis = useRedis();
const postgres = usePostgres();

async function migrated() {
  const url = await postgres.newDatabase();
  const store = postgresStore({ url });
  await store.migrate();
  return { url, store };
}

describe.each([
  ['memory', async () => memoryStore()],
  ['redis', async () => redisStore({ url: redis.url })],
  ['postgresql', async () => (await migrated()).store],
] as const)('the meter counts the commands to %s', (system, open) => {
  it('that requests, lease extensions, waiting duplicates and the reconciler send', async () => {
    const { store, meter, run, reconciler, counted } = await start(await open(), {
      reconcile: { intervalMs: 3_600_000, afterMs: 0 },
    });
    // The check at the start is a probe.
    expect(store.ended).toEqual({ abandoned: 1 });
    expect(counted()).toEqual({});
    store.ended.abandoned = 0;

    await run('one', () => 1);
    await run('one', () => 1);
    await expect(run('two', failing)).rejects.toThrow('planned');
    await run('three', () => until(() => counted().extend !== undefined), {
      lease: { durationMs: 300 },
    });
    const gate = Gate.closed();
    const waiting = { duplicates: { mode: 'wait', timeoutMs: 60_000 } };
    const requests = [1, 2].map(() => run('four', () => gate.pass(), waiting));
    await until(() => meter.read().operations.get('pay')!.waiting === 1);
    await until(() => counted().watch === 1);
    gate.open();
    await Promise.all(requests);

    reconciler.register('settle', { lease: { onTakeover: () => ({ value: 1 }) } });
    const call = await abandon(store, 'settle', 'five', 100);
    store.ended.begin! -= 1;
    await until(async () => (await recordOf(store, call))!.leaseLeftMs! < 0);
    expect(await reconciler.reconcile()).toMatchObject({ completed: 1 });

    expect(counted()).toEqual(store.ended);
    const names = ['abandoned', 'begin', 'complete', 'extend', 'release', 'watch'];
    expect(Object.keys(store.ended).sort()).toEqual(names);
    // Two for `two`, one for the reconciler's lock.
    expect(counted()).toMatchObject({ abandoned: 1, complete: 4, release: 2, watch: 1 });
    expect(meter.read().store.system).toBe(system);
  });
});

it('the meter counts the commands of a transaction, also those after a commit without a reply', async () => {
  const { url, store: real } = await migrated();
  const pool = openPostgresPool(url);
  const plain = pgUnitOfWork(pool);
  class LosingReplies extends PostgresUnitOfWork {
    isLosing = false;

    async run(...args: Parameters<typeof plain.run>): Promise<never> {
      const result = await plain.run(...args);
      if (this.isLosing) throw new Error('planned: no reply to COMMIT');
      return result as never;
    }
  }
  const unitOfWork = new LosingReplies();
  const { store, run, counted } = await start(real, { unitOfWork });
  afterTest(() => pool.end());
  await run('one', () => 1, { transaction: true });
  expect(counted()).toEqual({ begin: 1, transaction_lock: 1, transaction_complete: 1 });
  unitOfWork.isLosing = true;
  await run('two', () => 1, { transaction: true });
  expect(counted()).toEqual({
    ...{ begin: 2, transaction_lock: 2, transaction_complete: 2 },
    ...{ transaction_ended: 1, release: 1 },
  });
  expect(store.ended).toEqual(counted());
});

describe('the meter, of commands to a Redis', () => {
  const node = useServer(() => RedisNode.start());
  const LIMIT_MS = 200;

  async function onNode() {
    const started = await start(redisStore({ url: node.url, onConnectionError: () => undefined }), {
      storeErrors: { commandTimeoutMs: LIMIT_MS, saveTimeoutMs: 2 * LIMIT_MS },
      lease: { durationMs: 600_000, maxExecutionMs: 600_000 },
    });
    const isServed = () => started.run(randomUUID(), () => 1).then(Boolean, () => false);
    // It is connected, and its scripts are loaded.
    await until(isServed);
    return { ...started, isServed };
  }

  it('that is paused, says that their outcome is unknown, after their time limit', async () => {
    const { store, run, commands, counted, isServed } = await onNode();
    const unknown = (name: string) =>
      commands().find(
        ({ command, errorType }) =>
          command === name && errorType === 'idempotency_store_outcome_unknown',
      )?.duration;
    try {
      node.pause();
      await expect(run('one', () => 1)).rejects.toThrow();
      // Less a timer's rounding.
      expect(unknown('begin')).toMatchObject({ count: 1 });
      expect(unknown('begin')!.sum).toBeGreaterThan((LIMIT_MS - 2) / 1_000);
      node.resume();
      await until(isServed);
      const before = counted().complete!;
      const pausing = () => {
        node.pause();
        return 1;
      };
      expect(await run('two', pausing)).toBe(1);
      expect(unknown('complete')).toBeDefined();
      node.resume();
      // The save goes on in the background.
      await until(() => counted().complete === before + 1);
      await until(() => sumOf(store.ended) === sumOf(counted()));
      expect(counted()).toEqual(store.ended);
    } finally {
      node.resume();
    }
  });

  it('that is gone, says that it is unavailable', async () => {
    const { store, run, counted } = await onNode();
    await node.kill();
    try {
      // The first one may notice the end of the connection.
      await expect(run('one', () => 1)).rejects.toThrow();
      await expect(run('two', () => 1)).rejects.toThrow();
      expect(counted()['begin idempotency_store_unavailable']).toBeGreaterThan(0);
      expect(counted()).toEqual(store.ended);
    } finally {
      await node.start();
    }
  });
});

function sumOf(counts: Record<string, number>): number {
  return Object.values(counts).reduce((sum, each) => sum + each, 0);
}
