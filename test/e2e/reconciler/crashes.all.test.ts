import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from '@jest/globals';
import type { IdempotencyContext, IdempotencyStore, ReconcileReport } from 'nestjs-idempotency';
import { recordKey } from 'nestjs-idempotency/store';
import { postgresStore } from 'nestjs-idempotency/postgres';
import { redisStore } from 'nestjs-idempotency/redis';
import { DrivenTime } from '../../support/clocks/driven-time.js';
import {
  reconcilingApp,
  type ReconcilingApp,
} from '../../integration/reconciler/support/reconciling-app.js';
import { SERVICE } from '../../support/stores/named-for.js';
import { until } from '../../support/waiting/until.js';
import { FaultyStore } from '../../support/stores/faulty-store.js';
import { Gate } from '../../support/waiting/gate.js';
import { Tally } from '../../support/waiting/tally.js';
import { openPostgresPool } from '../../support/postgres/postgres-pool.js';
import { startRedis } from '../../support/redis/redis-server.js';
import { describeWithClock } from '../../support/clocks/server-clock.js';
import { START_HOOK_MS } from '../../support/servers/start-server.js';
import { TalkingProcess } from '../../support/processes/talking-process.js';
import { sharedDatabase } from '../../support/postgres/use-postgres.js';
import {
  COMMAND_TIMEOUT_MS,
  OPERATION,
  SCOPE,
  type Message,
  type ProcessSettings,
} from './settings.js';

const PROCESS = new URL('process.ts', import.meta.url);

/** How long a dead worker blocks its keys; longer than any wait in this file. */
const LEASE_MS = 60_000;

/** More than one batch of a reconciler. */
const KEYS = 12;

interface Database {
  readonly store: ProcessSettings['store'];
  readonly open: () => IdempotencyStore;
  /** Advances the time of its records and of the worker in this process. */
  readonly pass: (ms: number) => Promise<void>;
  readonly stop: () => Promise<unknown>;
}

async function startRedisIn(time: DrivenTime): Promise<Database> {
  const redis = await startRedis({ env: time.env });
  const { url } = redis;
  const pass = (ms: number) => time.pass(ms);
  return {
    store: { kind: 'redis', url },
    open: () => redisStore({ url }),
    pass,
    stop: () => redis.stop(),
  };
}

/** PostgreSQL's clock cannot be moved, so the records are made older. */
async function startPostgresIn(time: DrivenTime): Promise<Database> {
  const url = await sharedDatabase();
  const open = () => postgresStore({ url });
  const store = open();
  await store.migrate();
  await store.close();
  const pool = openPostgresPool(url);
  const pass = async (ms: number) => {
    const older = ['lease_until', 'deadline', 'expires_at'].map(
      (at) => `${at} = ${at} - $1 * interval '1 ms'`,
    );
    await pool.query(`UPDATE idempotency_records SET ${older.join(', ')}`, [ms]);
    await time.pass(ms);
  };
  return { store: { kind: 'postgres', url }, open, pass, stop: () => pool.end() };
}

function messagesOf<Said extends Message['said']>(
  { messages }: TalkingProcess<Message>,
  said: Said,
): Extract<Message, { said: Said }>[] {
  return messages.filter((message) => message.said === said) as never;
}

const untilSaid = (talking: TalkingProcess<Message>, said: Message['said']) =>
  talking.until((messages) => messages.some((message) => message.said === said));

describeWithClock.each([
  ['Redis', startRedisIn],
  ['PostgreSQL', startPostgresIn],
] as const)('on %s', (_, start) => {
  const folder = mkdtempSync(join(tmpdir(), 'idempotency-reconciler-'));
  const ledger = join(folder, 'ledger');
  let time: DrivenTime;
  let database: Database;
  let store: IdempotencyStore;
  let processes: TalkingProcess<Message>[] = [];
  const apps: ReconcilingApp[] = [];

  beforeAll(async () => {
    time = new DrivenTime();
    database = await start(time);
    store = database.open();
  }, START_HOOK_MS);
  afterAll(async () => {
    await store.close();
    await database.stop();
    time.remove();
    rmSync(folder, { recursive: true });
  });
  beforeEach(() => {
    writeFileSync(ledger, '');
    time.start();
  });
  afterEach(async () => {
    await Promise.all(processes.map((each) => each.kill()));
    processes = [];
    for (const { nest } of apps.splice(0)) await nest.close();
    time.stop();
  });

  function launch(
    role: ProcessSettings['role'],
    calls: ProcessSettings['calls'] = [],
  ): TalkingProcess<Message> {
    const { store } = database;
    const settings: ProcessSettings = { role, store, ledger, leaseMs: LEASE_MS, calls };
    const launched = new TalkingProcess<Message>(PROCESS, settings);
    processes.push(launched);
    return launched;
  }

  async function appOn(store: IdempotencyStore): Promise<ReconcilingApp> {
    const reconcile = { interval: 86_400_000, after: 0 };
    const limits = {
      storeErrors: { commandTimeout: COMMAND_TIMEOUT_MS, saveTimeout: COMMAND_TIMEOUT_MS },
    };
    const app = await reconcilingApp({
      store,
      lease: { duration: LEASE_MS },
      reconcile,
      ...limits,
    });
    apps.push(app);
    return app;
  }

  const callOf = (key: string) => ({ operation: OPERATION, key, scope: SCOPE });
  const settle = (key: string) => {
    appendFileSync(ledger, `${key}\n`);
    return { settled: key };
  };
  const keysOf = (name: string) => Array.from({ length: KEYS }, (_, i) => `${name}-${i}`);
  const effects = () => readFileSync(ledger, 'utf8').split('\n').filter(Boolean).sort();
  const recordKeyOf = (key: string) =>
    recordKey({ service: SERVICE, scope: [SCOPE], operation: OPERATION, key });
  const inspect = (key: string) =>
    store.inspect(recordKeyOf(key), { timeoutMs: COMMAND_TIMEOUT_MS });

  async function untilNoneIsInProgress(keys: readonly string[]): Promise<void> {
    for (const key of keys) {
      while ((await inspect(key))?.state === 'in_progress') await delay(20);
    }
  }

  it('a worker is killed: one of two reconcilers settles each of its keys, and leaves those of a slow worker', async () => {
    const [done, notDone, slow] = [keysOf('done'), keysOf('not-done'), keysOf('slow')];
    const dead = launch('worker', [
      ...done.map((key) => ({ key, stopsAt: 'after' as const })),
      ...notDone.map((key) => ({ key, stopsAt: 'before' as const })),
    ]);
    const kept = new FaultyStore(database.open());
    const alive = await appOn(kept);
    const [reached, gate] = [new Tally(), new Gate()];
    gate.close();
    const settled = slow.map((key) =>
      alive.service.run(
        { ...callOf(key), lease: { onTakeover: () => 'run' } },
        async ({ attempt }) => {
          reached.add();
          await gate.pass();
          return { ...settle(key), attempt };
        },
      ),
    );
    await Promise.all([untilSaid(dead, 'stopped'), reached.reached(KEYS)]);
    await dead.kill();
    // In the end only heartbeats keep the reconcilers from the slow worker's keys.
    for (let third = 1; third <= 4; third += 1) {
      await database.pass(LEASE_MS / 3);
      await until(() => kept.sentOf('extend').length >= third * KEYS);
    }
    const reconcilers = [launch('reconciler'), launch('reconciler')];
    await untilNoneIsInProgress([...done, ...notDone]);

    for (const key of done) expect(await inspect(key)).toMatchObject({ state: 'completed' });
    for (const key of notDone) expect(await inspect(key)).toMatchObject({ state: 'released' });
    for (const key of slow) {
      expect(await inspect(key)).toMatchObject({ state: 'in_progress', attempt: 1 });
    }
    const lookedUp = reconcilers.flatMap((each) => messagesOf(each, 'lookedUp'));
    expect(lookedUp.map(({ key }) => key).sort()).toEqual([...done, ...notDone].sort());
    const reported = (type: string) =>
      reconcilers
        .flatMap((each) => messagesOf(each, 'event'))
        .filter((event) => event.type === type)
        .map((event) => event.recordKey)
        .sort();
    expect(reported('completed')).toEqual(done.map(recordKeyOf).sort());
    expect(reported('released')).toEqual(notDone.map(recordKeyOf).sort());

    // A complete round finds nothing more; new calls replay what was done, and run what was not.
    const heir = await appOn(database.open());
    heir.reconciler.register(OPERATION, { lease: { onTakeover: () => 'run' } });
    let report: ReconcileReport;
    await until(async () => {
      report = await heir.reconciler.reconcile();
      return report.coverage === 'complete';
    });
    expect(report!).toMatchObject({ completed: 0, released: 0 });
    const executed: string[] = [];
    for (const key of [...done, ...notDone]) {
      const run = ({ isTakeover }: IdempotencyContext) => {
        expect(isTakeover).toBe(true);
        executed.push(key);
        return settle(key);
      };
      expect(await heir.service.run(callOf(key), run)).toEqual({ settled: key });
    }
    expect(executed).toEqual(notDone);
    gate.open();
    expect(await Promise.all(settled)).toEqual(slow.map((key) => ({ settled: key, attempt: 1 })));
    expect(effects()).toEqual([...done, ...notDone, ...slow].sort());
  }, 120_000);

  it('a reconciler is killed during its check: another one settles the same key and the others', async () => {
    const keys = keysOf('twice');
    const dead = launch(
      'worker',
      keys.map((key) => ({ key, stopsAt: 'after' as const })),
    );
    await untilSaid(dead, 'stopped');
    await dead.kill();
    await database.pass(LEASE_MS);
    const first = launch('reconciler');
    await untilSaid(first, 'lookedUp');
    await first.kill();
    await database.pass(LEASE_MS);
    const second = launch('reconciler');
    await untilSaid(second, 'ready');
    await untilNoneIsInProgress(keys);
    for (const key of keys) expect(await inspect(key)).toMatchObject({ state: 'completed' });
    expect(effects()).toEqual(keys.sort());
  }, 120_000);
});
