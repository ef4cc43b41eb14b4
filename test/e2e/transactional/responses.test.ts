import { AsyncResource } from 'node:async_hooks';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, describe, expect, it } from '@jest/globals';
import {
  type CallHandler,
  Controller,
  type ExecutionContext,
  HttpException,
  type NestInterceptor,
  Post,
  Res,
  UseInterceptors,
} from '@nestjs/common';
import {
  type IdempotencyEvent,
  IdempotencyEvents,
  Idempotent,
  requireIdempotencyContext,
  requireIdempotencyTransaction,
} from 'nestjs-idempotency';
import { migrate, postgresStore } from 'nestjs-idempotency/postgres';
import {
  type SqlTransaction,
  type TransactionOptions,
  UnitOfWork,
} from 'nestjs-idempotency/transactions';
import { Client } from 'pg';
import {
  concat,
  defer,
  from,
  map,
  merge,
  mergeMap,
  of,
  race,
  retry,
  take,
  takeUntil,
  tap,
  throwError,
} from 'rxjs';
import { type AdapterName, adapterOf } from '../../integration/transactions/adapters/index.js';
import { endsOf, storyOf, wrongEnds } from '../../support/engine/attempt-ends.js';
import { Around, givingUp } from '../../support/http/around.js';
import { type Platform, platforms } from '../../support/http/combinations.js';
import { expectProblem, expectReplay } from '../../support/http/expectations.js';
import { onceSettled } from '../../support/http/once-settled.js';
import {
  type ExpressResponse,
  type FastifyReply,
  type Reply,
  takeRaw,
} from '../../support/http/reply.js';
import { InScenario, Scenario, scenarioOf } from '../../support/http/scenario.js';
import { formsOf, sendingController } from '../../support/http/sent-by-handlers.js';
import { startApp } from '../../support/http/start-app.js';
import { isTestAll } from '../../support/jest/test-all.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { useServer } from '../../support/servers/use-server.js';
import { Gate } from '../../support/waiting/gate.js';
import { Tally } from '../../support/waiting/tally.js';
import { until } from '../../support/waiting/until.js';
import { useBank } from './support/bank.js';
import {
  RAISE_CONFLICT,
  type Transaction,
  Transfers,
  TransfersController,
} from './support/transfers.controller.js';

describe('interceptors', () => {
  const bank = useBank();

  /** The application's unit of work, whose statements for records get their replies when `replies` is open. */
  class HeldUnitOfWork extends UnitOfWork<Transaction> {
    readonly replies = new Gate();
    readonly sent = new Tally();
    readonly opened = new Tally();
    /** How many transactions it opens. */
    most = Infinity;

    async run<Result>(
      options: TransactionOptions,
      work: (transaction: SqlTransaction<Transaction>) => Promise<Result>,
    ): Promise<Result> {
      if (this.opened.add() > this.most) throw new Error('planned: no connection is free');
      return bank.unitOfWork.run(options, (transaction) => {
        const query: SqlTransaction['query'] = async (text, values) => {
          const rows = await transaction.query(text, values);
          this.sent.add();
          await this.replies.pass();
          return rows;
        };
        return work({ ...transaction, query });
      });
    }

    isConflict(error: unknown): boolean {
      return bank.unitOfWork.isConflict(error);
    }

    isInterruption(error: unknown): boolean {
      return bank.unitOfWork.isInterruption(error);
    }

    isReplyMismatch(error: unknown): boolean {
      return bank.unitOfWork.isReplyMismatch(error);
    }
  }

  const unitOfWork = new HeldUnitOfWork();

  /** A conflict with another transaction, as pg throws it. */
  const conflict = () => Object.assign(new Error('planned'), { code: '40001' });

  /** Responds to the scenario's first request when its timeout fires, and still waits for the handler. */
  class RespondsItself implements NestInterceptor {
    intercept(context: ExecutionContext, next: CallHandler) {
      const http = context.switchToHttp();
      const scenario = scenarioOf(http.getRequest());
      if (scenario.arrived.count === 1) {
        const reply = http.getResponse<Reply>();
        void scenario.timeout.pass().then(() => reply.status(202).send({ accepted: true }));
      }
      return next.handle();
    }
  }

  /** Fails with a conflict beside the handler when the scenario's timeout fires. */
  const conflictingBeside: Around = (next, scenario) => {
    const conflicts = from(scenario.timeout.pass()).pipe(
      mergeMap(() => {
        scenario.timeout.close();
        return throwError(conflict);
      }),
    );
    return merge(next.handle(), conflicts).pipe(take(1));
  };

  /** Responds with a success in place of the handler when the scenario's timeout fires. */
  const responding: Around = (next, scenario) =>
    merge(next.handle(), from(scenario.timeout.pass()).pipe(map(() => ({ accepted: true })))).pipe(
      take(1),
    );

  @Controller()
  class ConflictsController {
    constructor(private readonly transfers: Transfers) {}

    @Post('responded')
    @Idempotent({ transaction: { conflictRetries: 2 } })
    @UseInterceptors(RespondsItself)
    async responded(@InScenario() scenario: Scenario) {
      return this.#execute(scenario);
    }

    @Post('given-up')
    @Idempotent({ transaction: { conflictRetries: 2 } })
    @Around(givingUp)
    async givenUp(@InScenario() scenario: Scenario) {
      return this.#execute(scenario);
    }

    @Post('repeated')
    @Idempotent({ transaction: true })
    @Around((next) => next.handle().pipe(retry(1)))
    async repeated(@InScenario() scenario: Scenario) {
      return this.#execute(scenario);
    }

    @Post('repeated-and-given-up')
    @Idempotent({ transaction: true })
    @Around((next, scenario) => givingUp({ handle: () => next.handle().pipe(retry(1)) }, scenario))
    async repeatedAndGivenUp(@InScenario() scenario: Scenario) {
      return this.#execute(scenario);
    }

    /** An outer interceptor retries after its timeout, too. */
    @Post('given-up-and-repeated')
    @Idempotent({ transaction: { conflictRetries: 1 } })
    @Around((next, scenario) =>
      givingUp(next, scenario).pipe(
        retry({
          count: 2,
          delay: (_, times) => {
            scenario.notes.push(`retry ${times}`);
            return of(0);
          },
        }),
      ),
    )
    async givenUpAndRepeated(@InScenario() scenario: Scenario) {
      return this.#execute(scenario);
    }

    /** An outer interceptor unsubscribes, and responds later. */
    @Post('left')
    @Idempotent({ transaction: { conflictRetries: 2 } })
    @Around((next, scenario) =>
      concat(
        next.handle().pipe(takeUntil(scenario.timeout.pass())),
        defer(() => scenario.gate.pass().then(() => ({ left: true }))),
      ).pipe(take(1)),
    )
    async left(@InScenario() scenario: Scenario) {
      return this.#execute(scenario);
    }

    @Post('responded-inside')
    @Around(responding)
    @Idempotent({ transaction: true })
    async respondedInside(@InScenario() scenario: Scenario) {
      return this.#execute(scenario);
    }

    @Post('responded-outside')
    @Idempotent({ transaction: true })
    @Around(responding)
    async respondedOutside(@InScenario() scenario: Scenario) {
      return this.#execute(scenario);
    }

    @Post('beside')
    @Around(conflictingBeside)
    @Idempotent({ transaction: { conflictRetries: 2 } })
    async beside(@InScenario() scenario: Scenario) {
      return this.#execute(scenario);
    }

    @Post('kept')
    @Idempotent({ transaction: { conflictRetries: 2 }, outcome: () => true })
    async kept(@InScenario() scenario: Scenario) {
      return this.#execute(scenario);
    }

    @Post('kept-without-retries')
    @Idempotent({ transaction: true, outcome: () => true })
    async keptWithoutRetries(@InScenario() scenario: Scenario) {
      return this.#execute(scenario);
    }

    /** Fails as planned after its write. */
    async #execute(scenario: Scenario) {
      scenario.notes.push('run');
      const { signal } = requireIdempotencyContext();
      signal.addEventListener('abort', () => scenario.notes.push('lost'));
      const execution = scenario.executions + 1;
      await this.transfers.add(scenario, execution);
      scenario.started.add();
      await scenario.gate.pass();
      switch (scenario.planned(execution)) {
        case 'conflict':
          throw conflict();
        case 'decline':
          throw new HttpException('planned', 409, { cause: conflict() });
        case 'fail':
          throw new Error('planned');
        case 'terminated':
          await requireIdempotencyTransaction<Transaction>().query(
            'SELECT pg_terminate_backend(pg_backend_pid())',
          );
      }
      return { execution };
    }
  }

  /** The status of a response in place of the handler's. The handler runs until the scenario's gate opens. */
  async function statusInPlace(scenario: Scenario, path: string): Promise<number> {
    scenario.gate.close();
    scenario.timeout.close();
    const pending = scenario.start('POST', path);
    await scenario.started.reached(1);
    scenario.timeout.open();
    return (await pending.response).status;
  }

  describe.each(platforms)('Around a transactional handler on %s', (platform) => {
    const app = useServer(() =>
      startApp({
        platform,
        controllers: [TransfersController, ConflictsController],
        providers: [Transfers],
        store: bank.newStore(),
        options: {
          unitOfWork,
          storeErrors: { commandTimeout: 5_000, saveTimeout: 5_000 },
        },
      }),
    );

    afterEach(() => {
      unitOfWork.most = Infinity;
    });

    it('an outer interceptor that retries gets a new transaction without the writes of the last execution', async () => {
      const scenario = app.scenario();
      scenario.plan = ['fail'];
      const first = await scenario.post('/repeated-outside');
      expect(first).toMatchObject({ status: 201, json: { execution: 2 } });
      expect(await bank.committed(scenario)).toEqual([2]);
      expectReplay(await scenario.post('/repeated-outside'), first);
    });

    it('an inner interceptor that retries fails, and nothing is committed', async () => {
      const scenario = app.scenario();
      scenario.plan = ['fail'];
      expect((await scenario.post('/repeated-inside')).status).toBe(500);
      expect(scenario.executions).toBe(1);
      expect(await bank.committed(scenario)).toEqual([]);
      expect((await scenario.post('/repeated-inside')).status).toBe(201);
      expect(await bank.committed(scenario)).toEqual([2]);
    });

    it('an inner interceptor may replace an error with a response, and the writes are rolled back', async () => {
      const scenario = app.scenario();
      scenario.plan = ['fail'];
      const first = await scenario.post('/falls-back');
      expect(first).toMatchObject({ status: 201, json: { fallback: true } });
      expect(await bank.committed(scenario)).toEqual([]);
      expectReplay(await scenario.post('/falls-back'), first);
    });

    it('a success that is not kept is committed, and may run again', async () => {
      const scenario = app.scenario();
      expect((await scenario.post('/unkept')).json).toEqual({ execution: 1 });
      expect(await bank.committed(scenario)).toEqual([1]);
      expect((await scenario.post('/unkept')).json).toEqual({ execution: 2 });
      expect(await bank.committed(scenario)).toEqual([1, 2]);
      expect(scenario.notes).toEqual(['committed', 'committed']);
    });

    it.each([
      ['has responded', '/responded', 202],
      ['has timed out', '/given-up', 503],
    ])(
      'an outer interceptor that %s does not get another execution after a conflict',
      async (_, path, status) => {
        const scenario = app.scenario();
        scenario.plan = ['conflict'];
        expect(await statusInPlace(scenario, path)).toBe(status);
        scenario.gate.open();
        const second = await onceSettled(() => scenario.post(path));
        expect(second).toMatchObject({ status: 201, json: { execution: 2 } });
        expect(await bank.committed(scenario)).toEqual([2]);
      },
    );

    it.each([
      ['/responded-inside', 201, ['rolled_back', 'released']],
      ['/responded-outside', 201, ['rolled_back', 'released']],
      ['/responded', 202, ['rolled_back', 'released']],
      ['/given-up', 503, ['released']],
    ])('a success that %s rolls back below a %i is reported', async (path, status, reported) => {
      const events: IdempotencyEvent[] = [];
      const collect = (event: IdempotencyEvent) => events.push(event);
      const unsubscribe = app.nest.get(IdempotencyEvents, { strict: false }).subscribe(collect);
      const scenario = app.scenario();
      expect(await statusInPlace(scenario, path)).toBe(status);
      scenario.gate.open();
      await until(() => endsOf(events).length === 1);
      unsubscribe();
      expect(storyOf(events)).toEqual(['acquired', ...reported]);
      expect(wrongEnds(events)).toEqual([]);
      expect(await bank.committed(scenario)).toEqual([]);
    });

    it('an outer interceptor that responds between two executions does not get the second', async () => {
      const scenario = app.scenario();
      scenario.plan = ['conflict'];
      scenario.timeout.close();
      const unsubscribe = app.nest
        .get(IdempotencyEvents, { strict: false })
        .subscribe(({ type }) => {
          if (type === 'conflicted') scenario.timeout.open();
        });
      expect((await scenario.post('/responded')).status).toBe(202);
      unsubscribe();
      const second = await onceSettled(() => scenario.post('/responded'));
      expect(second).toMatchObject({ status: 201, json: { execution: 2 } });
      expect(await bank.committed(scenario)).toEqual([2]);
    });

    it('an outer interceptor that unsubscribes between two executions does not get the second', async () => {
      const scenario = app.scenario();
      scenario.plan = ['conflict'];
      scenario.timeout.close();
      let isReleased = false;
      const unsubscribe = app.nest
        .get(IdempotencyEvents, { strict: false })
        .subscribe(({ type }) => {
          if (type === 'released') isReleased = true;
          if (type !== 'conflicted') return;
          scenario.gate.close();
          scenario.timeout.open();
        });
      const pending = scenario.start('POST', '/left');
      await until(() => isReleased);
      unsubscribe();
      scenario.gate.open();
      const response = await pending.response;
      expect(response.json).toEqual({ left: true });
      expect(response.header('retry-after')).toBeUndefined();
      expect(scenario.notes).toEqual(['run']);
      expect(await bank.committed(scenario)).toEqual([]);
    });

    it('an outer interceptor that gives up while a transaction opens for its retry leaves none open', async () => {
      const scenario = app.scenario();
      scenario.plan = ['fail'];
      scenario.gate.close();
      scenario.timeout.close();
      const pending = scenario.start('POST', '/repeated-and-given-up');
      await scenario.started.reached(1);
      unitOfWork.replies.close();
      const { count } = unitOfWork.sent;
      scenario.gate.open();
      await unitOfWork.sent.reached(count + 1);
      scenario.timeout.open();
      await until(() => bank.isWaiting());
      unitOfWork.replies.open();
      expect((await pending.response).status).toBe(503);
      expect((await scenario.post('/repeated-and-given-up')).json).toEqual({ execution: 2 });
      expect(await bank.committed(scenario)).toEqual([2]);
      expect(await bank.terminateIdleTransactions()).toBe(0);
    });

    it('an outer interceptor that retries between two executions gets one, and only its own header fields', async () => {
      const path = '/given-up-and-repeated';
      const scenario = app.scenario();
      scenario.plan = ['conflict'];
      scenario.timeout.close();
      const opened = unitOfWork.opened.count;
      unitOfWork.most = opened + 2;
      const unsubscribe = app.nest
        .get(IdempotencyEvents, { strict: false })
        .subscribe(({ type }) => {
          if (type !== 'conflicted') return;
          scenario.gate.close();
          scenario.timeout.open();
        });
      const pending = scenario.start('POST', path);
      await Promise.race([scenario.started.reached(2), pending.response]);
      unsubscribe();
      // Another execution would start after the pause that follows a conflict: at most 20 ms.
      await delay(100);
      scenario.gate.open();
      const first = await pending.response;
      expect(first).toMatchObject({ status: 201, json: { execution: 2 } });
      expect(first.header('retry-after')).toBeUndefined();
      expect(scenario.notes).toEqual(['run', 'retry 1', 'run']);
      expect(unitOfWork.opened.count).toBe(opened + 2);
      expect(await bank.committed(scenario)).toEqual([2]);
      expectReplay(await scenario.post(path), first);
    });

    it('an outer interceptor that gives up while a transaction opens, and retries, gets that transaction', async () => {
      const path = '/given-up-and-repeated';
      const scenario = app.scenario();
      scenario.plan = ['fail'];
      scenario.gate.close();
      scenario.timeout.close();
      const pending = scenario.start('POST', path);
      await scenario.started.reached(1);
      unitOfWork.replies.close();
      const { count } = unitOfWork.sent;
      scenario.gate.open();
      await unitOfWork.sent.reached(count + 1);
      scenario.timeout.open();
      await until(() => scenario.notes.includes('retry 2'));
      unitOfWork.replies.open();
      const first = await pending.response;
      expect(first).toMatchObject({ status: 201, json: { execution: 2 } });
      expect(first.header('retry-after')).toBeUndefined();
      expect(await bank.committed(scenario)).toEqual([2]);
      expectReplay(await scenario.post(path), first);
      expect(await bank.terminateIdleTransactions()).toBe(0);
    });

    it.each([
      [
        'an outer interceptor that retries after the connection was lost gets 503, and no execution',
        { plan: 'fail', path: '/repeated', problem: 'store-unavailable' },
      ],
      [
        'a conflict does not run again after the connection was lost',
        { plan: 'conflict', path: '/kept', problem: 'transaction-conflict' },
      ],
    ] as const)('%s', async (_, { plan, path, problem }) => {
      const scenario = app.scenario();
      scenario.plan = [plan];
      scenario.gate.close();
      const pending = scenario.start('POST', path);
      await scenario.started.reached(1);
      expect(await bank.terminateIdleTransactions()).toBe(1);
      await until(() => scenario.notes.includes('lost'));
      scenario.gate.open();
      expectProblem(await pending.response, problem);
      expect(scenario.notes).toEqual(['run', 'lost']);
      expect((await scenario.post(path)).json).toEqual({ execution: 2 });
      expect(await bank.committed(scenario)).toEqual([2]);
    });

    it('a conflict of an inner interceptor does not replace the transaction of a running handler', async () => {
      const scenario = app.scenario();
      scenario.gate.close();
      scenario.timeout.close();
      const pending = scenario.start('POST', '/beside');
      await scenario.started.reached(1);
      scenario.timeout.open();
      expectProblem(await pending.response, 'transaction-conflict');
      expectProblem(await scenario.post('/beside'), 'in-progress');
      expect(scenario.executions).toBe(1);
      scenario.gate.open();
      const second = await onceSettled(() => scenario.post('/beside'));
      expect(second).toMatchObject({ status: 201, json: { execution: 2 } });
      expect(await bank.committed(scenario)).toEqual([2]);
    });

    it.each([
      ['conflict', 'transaction-conflict'],
      ['terminated', 'store-unavailable'],
    ] as const)(
      'a policy that keeps everything does not keep a failure by "%s"',
      async (plan, problem) => {
        const scenario = app.scenario();
        scenario.plan = [plan];
        expectProblem(await scenario.post('/kept-without-retries'), problem);
        const second = await scenario.post('/kept-without-retries');
        expect(second).toMatchObject({ status: 201, json: { execution: 2 } });
        expect(await bank.committed(scenario)).toEqual([2]);
      },
    );

    it.each([
      ['an error without a conflict', 'fail', 500],
      ['a response of the handler that was caused by a conflict', 'decline', 409],
    ])('%s does not run again', async (_, plan, status) => {
      const scenario = app.scenario();
      scenario.plan = [plan];
      const first = await scenario.post('/kept');
      expect(first.status).toBe(status);
      expectReplay(await scenario.post('/kept'), first);
      expect(scenario.executions).toBe(1);
      expect(await bank.committed(scenario)).toEqual([]);
    });

    it('keeps a response of the handler although its connection was lost', async () => {
      const scenario = app.scenario();
      scenario.plan = ['decline'];
      scenario.gate.close();
      const pending = scenario.start('POST', '/kept');
      await scenario.started.reached(1);
      expect(await bank.terminateIdleTransactions()).toBe(1);
      await until(() => scenario.notes.includes('lost'));
      scenario.gate.open();
      const first = await pending.response;
      expect(first.status).toBe(409);
      expectReplay(await scenario.post('/kept'), first);
      expect(scenario.executions).toBe(1);
    });
  });
});

describe('sent by handlers', () => {
  const ALL: readonly AdapterName[] = ['pg', 'typeorm', 'prisma', 'kysely', 'drizzle', 'knex'];
  const CONNECTIONS = 5;

  /** Each platform and three adapters; `npm run test:all` has all pairs. No code depends on both. */
  const targets: readonly { platform: Platform; adapter: AdapterName }[] = isTestAll
    ? platforms.flatMap((platform) => ALL.map((adapter) => ({ platform, adapter })))
    : [
        { platform: 'express', adapter: 'typeorm' },
        { platform: 'fastify', adapter: 'pg' },
        { platform: 'fastify', adapter: 'prisma' },
      ];
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
    async failingAround(
      @InScenario() scenario: Scenario,
      @Res({ passthrough: true }) reply: Reply,
    ) {
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
    async givenUpOutside(
      @InScenario() scenario: Scenario,
      @Res({ passthrough: true }) reply: Reply,
    ) {
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
    async withoutContext(
      @InScenario() scenario: Scenario,
      @Res({ passthrough: true }) reply: Reply,
    ) {
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
});
