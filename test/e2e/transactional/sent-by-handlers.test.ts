import { AsyncResource } from 'node:async_hooks';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { describe, expect, it } from '@jest/globals';
import { Controller, HttpException, Post, Res } from '@nestjs/common';
import { Idempotent, requireIdempotencyTransaction } from 'nestjs-idempotency';
import { migrate, postgresStore } from 'nestjs-idempotency/postgres';
import { Client } from 'pg';
import { from, map, race, tap } from 'rxjs';
import { Around, givingUp } from '../../support/http/around.js';
import { platforms } from '../../support/http/combinations.js';
import { expectProblem, expectReplay } from '../../support/http/expectations.js';
import { onceSettled } from '../../support/http/once-settled.js';
import {
  type ExpressResponse,
  type FastifyReply,
  type Reply,
  takeRaw,
} from '../../support/http/reply.js';
import { InScenario, Scenario } from '../../support/http/scenario.js';
import { formsOf, sendingController } from '../../support/http/sent-by-handlers.js';
import { startApp } from '../../support/http/start-app.js';
import { isTestAll } from '../../support/jest/test-all.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { useServer } from '../../support/servers/use-server.js';
import { until } from '../../support/waiting/until.js';
import { adapterOf, type AdapterName } from '../../integration/transactions/adapters/index.js';
import { useBank } from './support/bank.js';
import { RAISE_CONFLICT, Transfers, type Transaction } from './support/transfers.controller.js';

const adapters: readonly AdapterName[] = isTestAll
  ? ['pg', 'typeorm', 'prisma', 'kysely', 'drizzle', 'knex']
  : ['pg', 'typeorm', 'prisma'];
const CONNECTIONS = 5;

const targets = platforms.flatMap((platform) => adapters.map((adapter) => ({ platform, adapter })));
const server = usePostgres();

describe.each(targets)(
  'a response that a transactional handler sends itself on $platform with $adapter',
  ({ platform, adapter }) => {
    const bank = useServer(async () => {
      const url = await server.newDatabase();
      await migrate({ url });
      const observer = new Client(url);
      await observer.connect();
      await observer.query('CREATE TABLE effects (id text PRIMARY KEY)');
      const opened = await adapterOf(adapter).open(url, CONNECTIONS);
      const act = ({ key }: Scenario, execution: number) =>
        opened.insert(requireIdempotencyTransaction<never>(), `${key} ${execution}`);
      const app = await startApp({
        platform,
        store: postgresStore({ url }),
        controllers: [sendingController(platform, { transaction: true }, act)],
        options: { unitOfWork: opened.unitOfWork },
      });
      return {
        app,
        /** The executions that another connection sees. */
        async committed({ key }: Scenario): Promise<string[]> {
          const text = 'SELECT id FROM effects WHERE id LIKE $1 ORDER BY id';
          const { rows } = await observer.query(text, [`${key} %`]);
          return rows.map(({ id }) => String(id).split(' ')[1]!);
        },
        async close() {
          await app.close();
          await opened.close();
          await observer.end();
        },
      };
    });

    describe.each(formsOf(platform))('by %s', (form) => {
      const path = (end: string) => `/${encodeURIComponent(form)}/${end}`;

      it('arrives when its writes are committed [P19]', async () => {
        const scenario = bank.app.scenario();
        const first = await scenario.post(path('returns'));
        expect(await bank.committed(scenario)).toEqual(['1']);
        expect(first.status).toBeLessThan(400);
        expectReplay(await scenario.post(path('returns')), first);
        expect(scenario.executions).toBe(1);
      });

      it('never arrives if it throws after it [P19]', async () => {
        const scenario = bank.app.scenario();
        const first = await scenario.post(path('throws'));
        expect({ status: first.status, text: first.text }).toMatchObject({ status: 500 });
        expect(first.text).not.toContain('execution');
        expect(first.header('location') ?? first.header('x-own')).toBeUndefined();
        expect(await bank.committed(scenario)).toEqual([]);
        const second = await scenario.post(path('throws'));
        expect(second).toMatchObject({ status: 201, json: { execution: 2 } });
        expect(await bank.committed(scenario)).toEqual(['2']);
        expectReplay(await scenario.post(path('throws')), second);
      });

      it('waits for what it awaits after it', async () => {
        const scenario = bank.app.scenario();
        scenario.gate.close();
        const pending = scenario.start('POST', path('awaits'));
        await scenario.started.reached(1);
        expectProblem(await scenario.post(path('awaits')), 'in-progress');
        expect(pending.receivedBytes).toBe(0);
        expect(await bank.committed(scenario)).toEqual([]);
        scenario.gate.open();
        const first = await pending.response;
        expect(await bank.committed(scenario)).toEqual(['1']);
        expect(first.status).toBeLessThan(400);
        expectReplay(await scenario.post(path('awaits')), first);
        expect(scenario.executions).toBe(1);
      });
    });
  },
);

/** Its context was lost, as in a callback of a pool that was made at the start. */
const elsewhere = new AsyncResource('elsewhere');
const MAX_BYTES = 1_000;

@Controller()
class SpecialController {
  constructor(private readonly transfers: Transfers) {}

  @Post('conflicting')
  @Idempotent({ transaction: { conflictRetries: 1 } })
  async conflicting(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    const execution = await this.#run(scenario);
    if (execution > 1) return { execution };
    reply.header('X-Own', 'yes').status(202).send({ execution });
    await requireIdempotencyTransaction<Transaction>().query(RAISE_CONFLICT);
    return undefined;
  }

  @Post('declined')
  @Idempotent({ transaction: true })
  async declined(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    const execution = await this.#run(scenario);
    reply.status(201).send({ paid: true });
    throw new HttpException({ execution }, 402);
  }

  @Post('failing-around')
  @Around((next) =>
    next.handle().pipe(
      tap(() => {
        throw new HttpException('around', 500);
      }),
    ),
  )
  @Idempotent({ transaction: true })
  async failingAround(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    reply.status(201).send({ execution: await this.#run(scenario) });
  }

  @Post('responded-inside')
  @Around((next, { timeout }) =>
    race(next.handle(), from(timeout.pass()).pipe(map(() => ({ queued: true })))),
  )
  @Idempotent({ transaction: true })
  async respondedInside(@InScenario() scenario: Scenario) {
    return { execution: await this.#run(scenario) };
  }

  @Post('given-up-outside')
  @Idempotent({ transaction: true })
  @Around(givingUp)
  async givenUpOutside(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    const execution = scenario.started.add();
    await this.transfers.add(scenario, execution);
    reply.status(201).send({ execution });
    scenario.passed.add();
    await scenario.gate.pass();
    throw new Error('planned');
  }

  @Post('failed')
  @Idempotent({ transaction: true })
  async failed(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    reply.status(503).send({ execution: await this.#run(scenario) });
  }

  @Post('conflicted-status')
  @Idempotent({ transaction: true })
  async taken(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    reply.status(409).send({ execution: await this.#run(scenario) });
  }

  @Post('large')
  @Idempotent({ transaction: true, outcome: { maxBytes: MAX_BYTES } })
  async large(
    @InScenario() scenario: Scenario,
    @Res({ passthrough: true }) reply: ExpressResponse | FastifyReply,
  ) {
    await this.#run(scenario);
    const chunks = Array.from({ length: 100 }, () => Buffer.alloc(MAX_BYTES, 'x'));
    await pipeline(Readable.from(chunks), takeRaw(reply));
  }

  @Post('without-context')
  @Idempotent({ transaction: true })
  async withoutContext(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    const execution = scenario.started.add();
    await this.transfers.add(scenario, execution);
    elsewhere.runInAsyncScope(() => reply.status(201).send({ execution }));
    await scenario.gate.pass();
  }

  async #run(scenario: Scenario): Promise<number> {
    const execution = scenario.started.add();
    await this.transfers.add(scenario, execution);
    await scenario.gate.pass();
    return execution;
  }
}

describe.each(platforms)('what a transactional handler sends itself on %s', (platform) => {
  const bank = useBank();
  const app = useServer(() =>
    startApp({
      platform,
      controllers: [SpecialController],
      providers: [Transfers],
      store: bank.newStore(),
      options: { unitOfWork: bank.unitOfWork },
    }),
  );

  it('is discarded when a conflict runs it again', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/conflicting');
    expect(first).toMatchObject({ status: 201, json: { execution: 2 } });
    expect(first.header('x-own')).toBeUndefined();
    expect(await bank.committed(scenario)).toEqual([2]);
    expectReplay(await scenario.post('/conflicting'), first);
  });

  it('gives way to the failure that it throws after it, which is kept', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/declined');
    expect(first).toMatchObject({ status: 402, json: { execution: 1 } });
    expect(await bank.committed(scenario)).toEqual([]);
    expectReplay(await scenario.post('/declined'), first);
    expect(scenario.executions).toBe(1);
  });

  it('gives way to the failure of an interceptor around it', async () => {
    const scenario = app.scenario();
    expect((await scenario.post('/failing-around')).status).toBe(500);
    expect((await scenario.post('/failing-around')).status).toBe(500);
    expect(await bank.committed(scenario)).toEqual([]);
    expect(scenario.executions).toBe(2);
  });

  it('gives way to an error if an outer interceptor has given up, and then it throws', async () => {
    const scenario = app.scenario();
    scenario.gate.close();
    scenario.timeout.close();
    const pending = scenario.start('POST', '/given-up-outside');
    await scenario.passed.reached(1);
    scenario.timeout.open();
    await new Promise((resolve) => setImmediate(resolve));
    expect(pending.receivedBytes).toBe(0);
    scenario.gate.open();
    expect((await pending.response).status).toBe(500);
    expect(await bank.committed(scenario)).toEqual([]);
    scenario.timeout.close();
    expect((await scenario.post('/given-up-outside')).status).toBe(500);
    expect(scenario.executions).toBe(2);
  });

  it('does not keep back the value of an interceptor around it', async () => {
    const scenario = app.scenario();
    scenario.gate.close();
    scenario.timeout.close();
    const pending = scenario.start('POST', '/responded-inside');
    await scenario.started.reached(1);
    scenario.timeout.open();
    expect((await pending.response).json).toEqual({ queued: true });
    scenario.gate.open();
    scenario.timeout.close();
    const second = await onceSettled(() => scenario.post('/responded-inside'));
    expect(second.json).toEqual({ execution: 2 });
    expect(await bank.committed(scenario)).toEqual([2]);
  });

  it('is rolled back with a status that is not kept, and committed with one that is', async () => {
    const failed = app.scenario();
    expect((await failed.post('/failed')).json).toEqual({ execution: 1 });
    expect((await failed.post('/failed')).json).toEqual({ execution: 2 });
    expect(await bank.committed(failed)).toEqual([]);
    const taken = app.scenario();
    const first = await taken.post('/conflicted-status');
    expect(first.status).toBe(409);
    expect(await bank.committed(taken)).toEqual([1]);
    expectReplay(await taken.post('/conflicted-status'), first);
  });

  it('is held whole if it is larger than outcome.maxBytes, and not kept', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/large');
    expect(await bank.committed(scenario)).toEqual([1]);
    expect(first.status).toBe(201);
    expect(first.text).toBe('x'.repeat(100 * MAX_BYTES));
    expectProblem(await scenario.post('/large'), 'response-not-kept');
    expect(scenario.executions).toBe(1);
  });

  it('is held in a callback that has lost the async context', async () => {
    const scenario = app.scenario();
    scenario.gate.close();
    const pending = scenario.start('POST', '/without-context');
    await scenario.started.reached(1);
    expectProblem(await scenario.post('/without-context'), 'in-progress');
    expect(pending.receivedBytes).toBe(0);
    scenario.gate.open();
    const first = await pending.response;
    expect(await bank.committed(scenario)).toEqual([1]);
    expectReplay(await scenario.post('/without-context'), first);
  });

  it('is committed when its client has left', async () => {
    const scenario = app.scenario();
    scenario.gate.close();
    const pending = scenario.start('POST', '/without-context');
    pending.response.catch(() => undefined);
    await scenario.started.reached(1);
    pending.abandon();
    await scenario.disconnected.reached(1);
    scenario.gate.open();
    await until(async () => (await bank.committed(scenario)).length > 0);
    const second = await onceSettled(() => scenario.post('/without-context'));
    expect(second).toMatchObject({ status: 201, replayed: true, json: { execution: 1 } });
  });
});
