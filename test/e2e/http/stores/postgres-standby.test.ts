import { Controller, Post } from '@nestjs/common';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Pool } from 'pg';
import { Idempotent } from 'nestjs-idempotency';
import { postgresStore } from 'nestjs-idempotency/postgres';
import { until } from '../../../support/waiting/until.js';
import { expectProblem } from '../../../support/http/expectations.js';
import { InScenario, Scenario } from '../../../support/http/scenario.js';
import { startApp, type TestApp } from '../../../support/http/start-app.js';
import { findPostgres } from '../../../support/postgres/installed-postgres.js';
import { openPostgresPool } from '../../../support/postgres/postgres-pool.js';
import {
  copyPostgres,
  startPostgres,
  type PostgresServer,
  type PostgresStandby,
} from '../../../support/postgres/postgres-server.js';
import { START_HOOK_MS } from '../../../support/servers/start-server.js';

@Controller()
class OrdersController {
  @Post('orders')
  @Idempotent()
  async create(@InScenario() scenario: Scenario) {
    return scenario.response();
  }
}

const installed = findPostgres();

(installed === undefined ? describe.skip : describe)('records with a synchronous standby', () => {
  let primary: PostgresServer;
  let standby: PostgresStandby;
  let observer: Pool;
  let app: TestApp;

  beforeAll(async () => {
    const binaries = installed?.binaries ?? '';
    primary = await startPostgres({ binaries });
    const url = await primary.newDatabase();
    observer = openPostgresPool(url);
    const store = postgresStore({ url });
    await store.migrate();
    standby = await copyPostgres(url, binaries);
    await standby.start();
    await observer.query(`ALTER SYSTEM SET synchronous_standby_names = '*'`);
    await observer.query('SELECT pg_reload_conf()');
    await until(async () => {
      const { rows } = await observer.query('SELECT sync_state FROM pg_stat_replication');
      return rows[0]?.sync_state === 'sync';
    });
    app = await startApp({
      platform: 'express',
      controllers: [OrdersController],
      store,
      options: {
        storeErrors: { commandTimeoutMs: 5_000, saveTimeoutMs: 1_500, whenNotSaved: 'error' },
      },
    });
  }, START_HOOK_MS);
  afterAll(async () => {
    await app.close();
    await observer.end();
    await primary.stop();
    await standby.remove();
  }, 60_000);

  /** The backends that wait until the standby has their commit. */
  async function waiting(): Promise<number[]> {
    const { rows } = await observer.query<{ pid: number }>(
      `SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND datname = current_database()`,
    );
    return rows.map(({ pid }) => pid);
  }

  async function statesOnStandby(): Promise<string[]> {
    const pool = openPostgresPool(standby.url);
    const { rows } = await pool.query<{ state: string }>('SELECT state FROM idempotency_records');
    await pool.end();
    return rows.map(({ state }) => state);
  }

  it('are confirmed once the standby has them, even if the storing backend was terminated while it waited', async () => {
    const scenario = app.scenario();
    scenario.gate.close();
    const pending = scenario.start('POST', '/orders');
    await scenario.started.reached(1);
    await standby.stop();
    scenario.gate.open();
    await until(async () => (await waiting()).length === 1);
    // The primary has committed; the store's second attempt finds the record completed.
    await observer.query('SELECT pg_terminate_backend($1)', await waiting());
    expectProblem(await pending.response, 'store-unavailable');
    const { rows } = await observer.query('SELECT state FROM idempotency_records');
    expect(rows).toEqual([{ state: 'completed' }]);

    await standby.start();
    await until(async () => (await waiting()).length === 0);
    expect(await scenario.post('/orders')).toMatchObject({ status: 201, replayed: true });
    expect(scenario.executions).toBe(1);
    expect(await statesOnStandby()).toEqual(['completed']);
  });
});
