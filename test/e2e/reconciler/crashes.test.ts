import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { recordKey, type IdempotencyStore } from 'nestjs-idempotency';
import { postgresStore } from 'nestjs-idempotency/postgres';
import { redisStore } from 'nestjs-idempotency/redis';
import { reconcilingApp } from '../../integration/reconciler/support/reconciling-app.js';
import { sharedServer } from '../../support/shared-servers/use-shared-server.js';
import { START_HOOK_MS } from '../../support/start-patience.js';
import { sharedDatabase } from '../../support/use-postgres.js';
import { COMMAND_TIMEOUT_MS, OPERATION, SCOPE, type ProcessSettings } from './settings.js';
import { SettlingProcess } from './settling-process.js';

/** What a worker that dies blocks its keys for. */
const LEASE_MS = 2_000;

/** A worker that lives has two thirds of it for each heartbeat, however busy the machine is. */
const LONG_LEASE_MS = 5_000;

/** More than one batch of a reconciler. */
const KEYS = 12;

interface Database {
  readonly store: ProcessSettings['store'];
  readonly open: () => IdempotencyStore;
}

const DATABASES: Record<string, () => Promise<Database>> = {
  Redis: async () => {
    const { url } = await sharedServer('redis');
    return { store: { kind: 'redis', url }, open: () => redisStore({ url }) };
  },
  PostgreSQL: async () => {
    const url = await sharedDatabase();
    const open = () => postgresStore({ url });
    const store = open();
    await store.migrate();
    await store.close();
    return { store: { kind: 'postgres', url }, open };
  },
};

describe.each(Object.entries(DATABASES))('on %s', (_, start) => {
  const folder = mkdtempSync(join(tmpdir(), 'idempotency-reconciler-'));
  const ledger = join(folder, 'ledger');
  let database: Database | undefined;
  let store: IdempotencyStore;
  let processes: SettlingProcess[] = [];

  beforeAll(async () => {
    database = await start();
    store = database.open();
  }, START_HOOK_MS);
  afterAll(async () => {
    await store.close();
    rmSync(folder, { recursive: true });
  });
  beforeEach(() => {
    writeFileSync(ledger, '');
  });
  afterEach(async () => {
    await Promise.all(processes.map((each) => each.end()));
    processes = [];
  });

  function launch(
    role: ProcessSettings['role'],
    calls: ProcessSettings['calls'] = [],
    leaseMs = LEASE_MS,
  ): SettlingProcess {
    const { store } = database!;
    const launched = new SettlingProcess({ role, store, ledger, leaseMs, calls });
    processes.push(launched);
    return launched;
  }

  const keysOf = (name: string) => Array.from({ length: KEYS }, (_, i) => `${name}-${i}`);
  const effects = () => readFileSync(ledger, 'utf8').split('\n').filter(Boolean).sort();
  const recordKeyOf = (key: string) => recordKey({ scope: [SCOPE], operation: OPERATION, key });
  const inspect = (key: string) =>
    store.inspect(recordKeyOf(key), { timeoutMs: COMMAND_TIMEOUT_MS });

  async function untilNoneIsInProgress(keys: readonly string[]): Promise<void> {
    for (const key of keys) {
      while ((await inspect(key))?.state === 'in_progress') await delay(20);
    }
  }

  it('a worker is killed: of two reconcilers one ends each of its keys, and those of a slow worker are left to it', async () => {
    const [done, notDone, slow] = [keysOf('done'), keysOf('not-done'), keysOf('slow')];
    const dead = launch('worker', [
      ...done.map((key) => ({ key, stopsAt: 'after' as const })),
      ...notDone.map((key) => ({ key, stopsAt: 'before' as const })),
    ]);
    const alive = launch(
      'worker',
      slow.map((key) => ({ key, stopsAt: 'after' as const })),
      LONG_LEASE_MS,
    );
    const reconcilers = [launch('reconciler'), launch('reconciler')];
    await Promise.all([dead.untilSaid('stopped'), alive.untilSaid('stopped')]);
    const outlived = delay(LONG_LEASE_MS);
    await Promise.all(reconcilers.map((each) => each.untilSaid('ready')));
    await dead.end('SIGKILL');
    await untilNoneIsInProgress([...done, ...notDone]);
    // Heartbeats alone keep the reconcilers away from the slow one by now.
    await outlived;

    for (const key of done) expect(await inspect(key)).toMatchObject({ state: 'completed' });
    for (const key of notDone) expect(await inspect(key)).toMatchObject({ state: 'released' });
    for (const key of slow) {
      expect(await inspect(key)).toMatchObject({ state: 'in_progress', attempt: 1 });
    }
    const looked = reconcilers.flatMap((each) => each.of('looked'));
    expect(looked.map(({ key }) => key).sort()).toEqual([...done, ...notDone].sort());
    const told = (type: string) =>
      reconcilers
        .flatMap((each) => each.of('event'))
        .filter((event) => event.type === type)
        .map((event) => event.recordKey)
        .sort();
    expect(told('completed')).toEqual(done.map(recordKeyOf).sort());
    expect(told('released')).toEqual(notDone.map(recordKeyOf).sort());

    // Whoever comes now gets what was done, and does what was not.
    const heir = await reconcilingApp({
      store: database!.open(),
      commandTimeoutMs: COMMAND_TIMEOUT_MS,
    });
    const executed: string[] = [];
    for (const key of [...done, ...notDone]) {
      const call = { operation: OPERATION, key, scope: SCOPE };
      const settled = await heir.service.run(call, ({ isTakeover }) => {
        expect(isTakeover).toBe(true);
        executed.push(key);
        appendFileSync(ledger, `${key}\n`);
        return { settled: key };
      });
      expect(settled).toEqual({ settled: key });
    }
    await heir.nest.close();
    expect(executed).toEqual(notDone);
    alive.goOn();
    await alive.untilSaid('ended');
    expect(effects()).toEqual([...done, ...notDone, ...slow].sort());
    expect(Object.values(alive.of('ended')[0]!.attempts)).toEqual(slow.map(() => 1));
  }, 120_000);

  it('a reconciler is killed while it looks: another one finds the same key, and the next', async () => {
    const keys = keysOf('twice');
    const dead = launch(
      'worker',
      keys.map((key) => ({ key, stopsAt: 'after' as const })),
    );
    await dead.untilSaid('stopped');
    await dead.end('SIGKILL');
    const first = launch('reconciler');
    await first.untilSaid('looked');
    await first.end('SIGKILL');
    const second = launch('reconciler');
    await second.untilSaid('ready');
    await untilNoneIsInProgress(keys);
    for (const key of keys) expect(await inspect(key)).toMatchObject({ state: 'completed' });
    expect(effects()).toEqual(keys.sort());
  }, 120_000);
});
