import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Body, Controller, Inject, Post } from '@nestjs/common';
import {
  IdempotencyService,
  Idempotent,
  IdempotencyTransaction,
  type IdempotencyModuleOptions,
} from 'nestjs-idempotency';
import { migrate, postgresStore } from 'nestjs-idempotency/postgres';
import type { Pool } from 'pg';
import { startApp, type TestApp } from '../../support/http/start-app.js';
import { afterTest } from '../../support/jest/after-test.js';
import { openPostgresPool } from '../../support/postgres/postgres-pool.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { until } from '../../support/waiting/until.js';
import { Tally } from '../../support/waiting/tally.js';
import { executorNames } from './adapters/executors.js';
import { adapterOf } from './adapters/index.js';
import type { OpenedUnitOfWork } from './unit-of-work-suite.js';

const CONNECTIONS = 5;
const KEYS = 100;

const OPENED = Symbol('what the application has opened');
/** How many transactions are open whose handlers call an operation. */
const CALLING = Symbol('the calling handlers');

@Controller('effects')
class EffectsController {
  constructor(
    @Inject(OPENED) private readonly opened: OpenedUnitOfWork<never>,
    @Inject(CALLING) private readonly calling: Tally,
    private readonly service: IdempotencyService,
  ) {}

  /** Its write and its record are in one transaction. */
  @Post('transactional')
  @Idempotent({ transaction: true })
  async transactional(@Body() { id }: { id: string }, @IdempotencyTransaction() handle: never) {
    await this.opened.insert(handle, id);
    return { id };
  }

  /** Its write is in a transaction of its own, on the same pool. */
  @Post('plain')
  @Idempotent()
  async plain(@Body() { id }: { id: string }) {
    const options = { isolation: undefined, timeoutMs: 60_000 };
    await this.opened.unitOfWork.run(options, ({ handle }) => this.opened.insert(handle, id));
    return { id };
  }

  /** Holds its connection while the store needs another one. */
  @Post('calling')
  @Idempotent({ transaction: true })
  async call(@Body() { id }: { id: string }, @IdempotencyTransaction() handle: never) {
    await this.opened.insert(handle, id);
    this.calling.add();
    await this.calling.reached(CONNECTIONS);
    await this.service.run({ operation: 'inner', key: id, scope: 'all' }, () => 'done');
    return { id };
  }
}

const server = usePostgres();

describe.each(executorNames)(
  'A pool of five connections, of %s, for handlers and store',
  (name) => {
    let url: string;
    let observer: Pool;
    let opened: OpenedUnitOfWork<never>;
    let calling: Tally;

    beforeAll(async () => {
      url = await server.newDatabase();
      await migrate({ url });
      observer = openPostgresPool(url, { max: 1, application_name: 'observer' });
      // Without a unique key: a second execution must show.
      await observer.query('CREATE TABLE effects (id text)');
      opened = await adapterOf(name).open(url, CONNECTIONS);
    });
    beforeEach(() => observer.query('TRUNCATE effects, idempotency_records'));
    afterAll(async () => {
      await opened.close();
      await observer.end();
    });

    async function start(
      storeErrors: IdempotencyModuleOptions['storeErrors'] & object,
    ): Promise<TestApp> {
      const { executor, unitOfWork } = opened;
      if (executor === undefined) throw new Error(`${name} has no executor`);
      calling = new Tally();
      const app = await startApp({
        platform: 'fastify',
        store: postgresStore({ executor, push: false }),
        options: { unitOfWork, storeErrors, lease: { duration: 60_000, maxExecution: 120_000 } },
        controllers: [EffectsController],
        providers: [
          { provide: OPENED, useValue: opened },
          { provide: CALLING, useValue: calling },
        ],
      });
      afterTest(() => app.close());
      return app;
    }

    /** The most connections that were open at once, besides the observer's. */
    async function mostConnections(during: Promise<unknown>): Promise<number> {
      let [most, isOver] = [0, false];
      const over = () => (isOver = true);
      during.then(over, over);
      while (!isOver) {
        const { rows } = await observer.query<{ count: number }>(
          `SELECT count(*)::integer FROM pg_stat_activity
         WHERE datname = current_database() AND application_name <> 'observer'
           AND backend_type = 'client backend'`,
        );
        most = Math.max(most, rows[0]!.count);
      }
      return most;
    }

    const effects = async () =>
      (await observer.query<{ id: string }>('SELECT id FROM effects ORDER BY id')).rows.map(
        ({ id }) => id,
      );

    it.each(['transactional', 'plain'])(
      'serves 200 %s requests at once: all end, and each key runs once',
      async (route) => {
        const app = await start({ commandTimeout: 20_000, saveTimeout: 20_000 });
        const scenarios = Array.from({ length: KEYS }, () => app.scenario());
        const send = () =>
          scenarios.map((scenario) =>
            scenario.post(`/effects/${route}`, { json: { id: scenario.key } }),
          );
        const responding = Promise.all([...send(), ...send()]);
        const most = await mostConnections(responding);
        const statuses = (await responding).map(({ status }) => status);
        expect(new Set(statuses.filter((status) => status !== 409))).toEqual(new Set([201]));
        expect(statuses.filter((status) => status === 201).length).toBeGreaterThanOrEqual(KEYS);
        expect(await effects()).toEqual(scenarios.map(({ key }) => key).sort());
        expect(most).toBeLessThanOrEqual(CONNECTIONS);
        const retries = await Promise.all(send());
        expect(retries.every(({ status, replayed }) => status === 201 && replayed)).toBe(true);
        expect((await effects()).length).toBe(KEYS);
      },
    );

    it('that are all in transactions which wait for one more: none waits longer than its command may take', async () => {
      const app = await start({ commandTimeout: 2_000 });
      // The first statements take longer: the connections open.
      const first = app.scenario();
      const json = { id: first.key };
      await until(async () => (await first.post('/effects/plain', { json })).status === 201);
      await observer.query('TRUNCATE effects');
      const scenarios = Array.from({ length: CONNECTIONS }, () => app.scenario());
      const send = (scenario: (typeof scenarios)[number]) =>
        scenario.post('/effects/calling', { json: { id: scenario.key } });
      const responses = await Promise.all(scenarios.map(send));
      // The inner call rejects, and the handler does not catch that.
      expect(responses.map(({ status }) => status)).toEqual(scenarios.map(() => 500));
      expect(await effects()).toEqual([]);
      // One at a time: four connections are left for the store.
      for (const scenario of scenarios) expect((await send(scenario)).status).toBe(201);
      expect(await effects()).toEqual(scenarios.map(({ key }) => key).sort());
    });
  },
);
