import { Controller, Post } from '@nestjs/common';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Pool } from 'pg';
import { Idempotent } from 'nestjs-idempotency';
import { postgresStore, type PostgresIdempotencyStore } from 'nestjs-idempotency/postgres';
import { platforms } from '../../../support/http/combinations.js';
import { expectProblem, expectReplay } from '../../../support/http/expectations.js';
import { InScenario, Scenario } from '../../../support/http/scenario.js';
import { startApp, type TestApp } from '../../../support/http/start-app.js';
import { openPostgresPool } from '../../../support/postgres/postgres-pool.js';
import { usePostgres } from '../../../support/postgres/use-postgres.js';

@Controller()
class ThingsController {
  @Post('things')
  @Idempotent()
  create(@InScenario() scenario: Scenario) {
    return scenario.response();
  }
}

const server = usePostgres();
let url: string;

beforeAll(async () => {
  url = await server.newDatabase();
});

describe.each(platforms)('records in PostgreSQL on %s', (platform) => {
  let app: TestApp;
  let pool: Pool;
  let store: PostgresIdempotencyStore;
  /** The connections acquired from the pool: one for each statement. */
  let statements = 0;

  beforeAll(async () => {
    pool = openPostgresPool(url);
    pool.on('acquire', () => void (statements += 1));
    store = postgresStore({ client: pool, listenUrl: url });
    await store.migrate();
    const options = { storeErrors: { commandTimeoutMs: 5_000, saveTimeoutMs: 5_000 } };
    app = await startApp({ platform, controllers: [ThingsController], store, options });
  });
  afterAll(async () => {
    await app.close();
    await pool.end();
  });

  async function statementsOf<Result>(work: Promise<Result>): Promise<[Result, number]> {
    const before = statements;
    const result = await work;
    return [result, statements - before];
  }

  it('runs two statements for a first request and one for its replay', async () => {
    const scenario = app.scenario();
    const [first, forFirst] = await statementsOf(scenario.post('/things', { json: { a: 1 } }));
    const [replay, forReplay] = await statementsOf(scenario.post('/things', { json: { a: 1 } }));
    expectReplay(replay, first);
    expect([forFirst, forReplay, scenario.executions]).toEqual([2, 1, 1]);
  });

  it('rejects another request with the same key with one statement', async () => {
    const scenario = app.scenario();
    await scenario.post('/things', { json: { a: 1 } });
    const [other, count] = await statementsOf(scenario.post('/things', { json: { a: 2 } }));
    expectProblem(other, 'key-reused');
    expect([count, scenario.executions]).toEqual([1, 1]);
  });

  it('rejects a concurrent duplicate with one statement', async () => {
    const scenario = app.scenario();
    scenario.gate.close();
    const pending = scenario.start('POST', '/things');
    await scenario.started.reached(1);
    const [duplicate, count] = await statementsOf(scenario.post('/things'));
    expectProblem(duplicate, 'in-progress');
    expect(count).toBe(1);
    scenario.gate.open();
    const first = await pending.response;
    expectReplay(await scenario.post('/things'), first);
  });
});
