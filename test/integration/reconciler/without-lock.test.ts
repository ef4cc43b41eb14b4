import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { setTimeout as delay } from 'node:timers/promises';
import type { IdempotencyStore, Recover } from 'nestjs-idempotency';
import { postgresStore } from 'nestjs-idempotency/postgres';
import { redisStore } from 'nestjs-idempotency/redis';
import {
  IdempotencyEvents,
  IdempotencyEngine,
  DEFAULT_LIMITS,
  Reconciliation,
} from '../../support/internals/core.js';
import { protocolOptions, noServices } from '../../support/engine/protocol-options.js';
import { JSON_CODEC } from '../../support/internals/codecs.js';
import { recoverableCall, valueFormat } from '../../support/internals/call.js';
import { sharedServer } from '../../support/servers/shared/shared-server.js';
import { START_HOOK_MS } from '../../support/servers/start-server.js';
import { isTestAll } from '../../support/jest/test-all.js';
import { sharedDatabase } from '../../support/postgres/use-postgres.js';
import { abandon, recordOf, type AbandonedCall } from '../../support/engine/abandon.js';
import { SERVICE } from '../../support/stores/named-for.js';

const RECORDS = 40;
const AT_ONCE = 4;
const TIMEOUT_MS = 10_000;

const STORES = {
  Redis: async () => {
    const { url } = await sharedServer('redis');
    return () => redisStore({ url });
  },
  PostgreSQL: async () => {
    const url = await sharedDatabase();
    const store = postgresStore({ url });
    await store.migrate();
    await store.close();
    return () => postgresStore({ url });
  },
};

const name = isTestAll ? 'PostgreSQL' : 'Redis';

describe(`Without the lock, on ${name}`, () => {
  const stores: IdempotencyStore[] = [];

  beforeAll(async () => {
    const open = await STORES[name]();
    stores.push(...Array.from({ length: AT_ONCE }, () => open()));
  }, START_HOOK_MS);
  afterAll(async () => {
    for (const store of stores) await store.close();
  });

  it(`each of ${RECORDS} records is recovered once by ${AT_ONCE} concurrent processes`, async () => {
    const [store] = stores as [IdempotencyStore];
    const calls: AbandonedCall[] = [];
    for (let i = 0; i < RECORDS; i += 1) calls.push(await abandon(store, 'settle', `k${i}`, 100));
    for (const call of calls) {
      while (((await recordOf(store, call))?.leaseLeftMs ?? 0) > 0) await delay(5);
    }
    const lookedUp: string[] = [];
    const onTakeover: Recover = async ({ key }) => {
      lookedUp.push(key);
      await delay(1);
      return { value: key };
    };
    const options = protocolOptions({
      storeErrors: { commandTimeout: TIMEOUT_MS },
      lease: { onTakeover },
    });
    const operation = recoverableCall({
      options,
      keep: () => true,
      format: valueFormat(JSON_CODEC),
    });
    const settings = { interval: 100, after: 0, batchSize: 10 };
    const rounds = stores.map(async (own) => {
      const engine = new IdempotencyEngine(
        own,
        new IdempotencyEvents(),
        DEFAULT_LIMITS,
        undefined,
        undefined,
        undefined,
        SERVICE,
      );
      const all = new Reconciliation(engine, noServices, () => operation, settings, TIMEOUT_MS);
      let completed = 0;
      for (;;) {
        const report = await all.round(() => false);
        completed += report.completed;
        if (report.coverage === 'complete') return completed;
      }
    });
    const completed = await Promise.all(rounds);
    expect(lookedUp.sort()).toEqual(calls.map(({ key }) => key).sort());
    expect(completed.reduce((sum, each) => sum + each)).toBe(RECORDS);
    for (const call of calls) expect((await recordOf(store, call))?.state).toBe('completed');
  }, 60_000);
});
