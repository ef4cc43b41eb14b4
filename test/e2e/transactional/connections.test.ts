import { describe, expect, it } from '@jest/globals';
import type { Pool } from 'pg';
import type { IdempotencyModuleOptions } from 'nestjs-idempotency';
import { pgUnitOfWork } from 'nestjs-idempotency/pg';
import { afterTest } from '../../support/jest/after-test.js';
import { until } from '../../support/waiting/until.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';
import { openPostgresPool } from '../../support/postgres/postgres-pool.js';
import { useBank } from './support/bank.js';
import { Transfers, TransfersController } from './support/transfers.controller.js';

const bank = useBank();

describe('The connections of transactional operations', () => {
  let app: TestApp;
  let pool: Pool;
  async function start(max: number, options: Pick<IdempotencyModuleOptions, 'lease' | 'limits'>) {
    pool = openPostgresPool(bank.url, { application_name: 'bank', max });
    app = await startApp({
      platform: 'express',
      controllers: [TransfersController],
      providers: [Transfers],
      store: bank.newStore(),
      options: {
        unitOfWork: pgUnitOfWork(pool),
        storeErrors: { commandTimeoutMs: 5_000, saveTimeoutMs: 5_000 },
        ...options,
      },
    });
    const [ownApp, ownPool] = [app, pool];
    afterTest(async () => {
      await ownApp.close();
      await ownPool.end();
    });
  }

  it('are released when one is lost, whatever its handler waits for', async () => {
    await start(1, {});
    const hanging = app.scenario();
    hanging.gate.close();
    const pending = hanging.start('POST', '/transfers');
    pending.response.catch(() => undefined);
    await hanging.started.reached(1);
    await bank.terminateIdleTransactions();
    await until(() => hanging.notes.length > 0);
    expect((await app.scenario().post('/transfers')).status).toBe(201);
    hanging.gate.open();
    expect((await pending.response).status).toBe(503);
  });

  it('are not used for requests that have timed out', async () => {
    await start(1, { lease: { durationMs: 500 } });
    let transactions = 0;
    pool.on('connect', (client) => {
      client.query = new Proxy(client.query.bind(client), {
        apply(query, _, values: unknown[]) {
          if (String(values[0]).includes('lock_timeout')) transactions += 1;
          return Reflect.apply(query, undefined, values);
        },
      });
    });
    const holder = await pool.connect();
    const given = [1, 2, 3].map(() => app.scenario().post('/transfers'));
    expect((await Promise.all(given)).map(({ status }) => status)).toEqual([503, 503, 503]);
    holder.release();
    expect((await app.scenario().post('/transfers')).status).toBe(201);
    expect(transactions).toBe(1);
  });

  it('hold no transaction when the shutdown no longer waits', async () => {
    await start(5, { limits: { shutdownTimeoutMs: 100 } });
    const scenario = app.scenario();
    scenario.gate.close();
    scenario.start('POST', '/transfers').response.catch(() => undefined);
    await scenario.started.reached(1);
    const open = async () => {
      const { rows } = await bank.observer.query(
        "SELECT 1 FROM pg_stat_activity WHERE application_name = 'bank' AND state = 'idle in transaction'",
      );
      return rows.length;
    };
    expect(await open()).toBe(1);
    const closing = app.nest.close();
    await until(async () => (await open()) === 0);
    scenario.gate.open();
    await closing;
    expect(await bank.committed(scenario)).toEqual([]);
  });
});
