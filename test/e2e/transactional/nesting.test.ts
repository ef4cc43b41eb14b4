import { Controller, Injectable, Post } from '@nestjs/common';
import { describe, expect, it } from '@jest/globals';
import {
  currentIdempotencyContext,
  currentIdempotencyTransaction,
  IdempotencyContext,
  IdempotencyService,
  IdempotencyTransaction,
  Idempotent,
  requireIdempotencyContext,
  requireIdempotencyTransaction,
} from 'nestjs-idempotency';
import { platforms } from '../../support/http/combinations.js';
import { expectReplay } from '../../support/http/expectations.js';
import { InScenario, Scenario } from '../../support/http/scenario.js';
import { startApp } from '../../support/http/start-app.js';
import { useServer } from '../../support/servers/use-server.js';
import { useBank } from './support/bank.js';
import type { Transaction } from './support/transfers.controller.js';

const bank = useBank();

const LEVELS = 3;
const STEPS = [1, 2, 3];
const transaction = { conflictRetries: 1 };

/** One of several operations, each called by the one before. The first one is a request. */
interface Level {
  readonly scenario: Scenario;
  readonly number: number;
}

const keyOf = ({ scenario, number }: Level) => `${scenario.key}:${number}`;

/** Writes in the transaction, and under the key, that are current here. */
async function write(step: number): Promise<void> {
  const { key } = requireIdempotencyContext();
  const client = requireIdempotencyTransaction<Transaction>();
  await client.query('INSERT INTO transfers VALUES ($1, $2)', [key, step]);
}

/** Writes before the next level, while it runs, and after it has ended; then ends as planned. */
async function book(level: Level, enter: (next: Level) => Promise<unknown>): Promise<string> {
  const { scenario, number } = level;
  const context = currentIdempotencyContext();
  const client = currentIdempotencyTransaction();
  await write(1);
  const next = { scenario, number: number + 1 };
  const inner = number < LEVELS ? enter(next) : Promise.resolve();
  const ended = inner.catch((error: unknown) => scenario.notes.push(String(error)));
  await write(2);
  await ended;
  await write(3);
  expect(currentIdempotencyContext()).toBe(context);
  expect(currentIdempotencyTransaction()).toBe(client);
  const plan = scenario.planned(number);
  if (plan === 'fail') throw new Error('planned');
  if (plan === 'conflict' && !scenario.notes.includes(plan)) {
    scenario.notes.push(plan);
    throw Object.assign(new Error('planned'), { code: '40001' });
  }
  return `level ${number}`;
}

@Injectable()
class Ledger {
  constructor(private readonly service: IdempotencyService) {}

  /** Calls itself. */
  @Idempotent({ operation: 'ledger.book', key: keyOf, transaction })
  async book(level: Level): Promise<string> {
    return book(level, (next) => this.book(next));
  }

  run(level: Level): Promise<string> {
    const call = { operation: 'ledger.run', key: keyOf(level), scope: 'alice', transaction };
    return this.service.run(call, () => book(level, (next) => this.run(next)));
  }

  /** Without a transaction. */
  inspect({ scenario }: Level): Promise<unknown> {
    const call = { operation: 'ledger.inspect', key: scenario.key, scope: 'alice' };
    return this.service.run(call, () => scenario.notes.push(currentIdempotencyTransaction()));
  }
}

@Controller()
@Idempotent({ transaction })
class LedgerController {
  constructor(private readonly ledger: Ledger) {}

  @Post('methods')
  methods(@InScenario() scenario: Scenario) {
    return book({ scenario, number: 1 }, (next) => this.ledger.book(next));
  }

  @Post('calls')
  calls(@InScenario() scenario: Scenario) {
    return book({ scenario, number: 1 }, (next) => this.ledger.run(next));
  }

  @Post('without-transaction')
  withoutTransaction(@InScenario() scenario: Scenario) {
    return book({ scenario, number: 1 }, (next) => this.ledger.inspect(next));
  }

  /** Calls itself, which is a plain call. */
  @Post('itself')
  async itself(
    @InScenario() scenario: Scenario,
    @IdempotencyTransaction() client: Transaction,
    @IdempotencyContext() context: IdempotencyContext,
    depth = LEVELS,
  ): Promise<string> {
    if (depth > 1) await this.itself(scenario, client, context, depth - 1);
    await write(depth);
    expect(requireIdempotencyTransaction()).toBe(client);
    expect(requireIdempotencyContext()).toBe(context);
    if (depth === LEVELS && scenario.planned(1) === 'fail') throw new Error('planned');
    return `depth ${depth}`;
  }
}

interface Written {
  /** What follows the scenario's key: nothing for the request's own. */
  readonly suffix: string;
  readonly steps: readonly number[];
  /** The ids of the transactions that wrote them. */
  readonly transactions: readonly string[];
}

async function committed({ key }: Scenario): Promise<Written[]> {
  const { rows } = await bank.observer.query(
    `SELECT substr(key, length($1) + 1) AS suffix,
       array_agg(execution ORDER BY execution) AS steps,
       array_agg(DISTINCT xmin::text) AS transactions
     FROM transfers WHERE starts_with(key, $1) GROUP BY key ORDER BY key`,
    [key],
  );
  return rows as Written[];
}

/** Every step of these levels is committed, each level's in a transaction of its own. */
async function expectCommitted(scenario: Scenario, suffixes: readonly string[]): Promise<void> {
  const written = await committed(scenario);
  expect(written.map(({ suffix, steps }) => [suffix, steps])).toEqual(
    suffixes.map((suffix) => [suffix, STEPS]),
  );
  const transactions = written.flatMap((level) => level.transactions);
  expect(transactions).toHaveLength(suffixes.length);
  expect(new Set(transactions).size).toBe(suffixes.length);
}

describe.each(platforms)('A transactional operation within another one on %s', (platform) => {
  const app = useServer(() =>
    startApp({
      platform,
      controllers: [LedgerController],
      providers: [Ledger],
      store: bank.newStore(),
      options: {
        unitOfWork: bank.unitOfWork,
        storeErrors: { commandTimeoutMs: 5_000, saveTimeoutMs: 5_000 },
      },
    }),
  );

  describe.each(['/methods', '/calls'])('%s', (path) => {
    it.each([
      ['all succeed', [], ['', ':2', ':3']],
      ['the outermost one fails', ['fail'], [':2', ':3']],
      ['the one between fails', ['succeed', 'fail'], ['', ':3']],
      ['the innermost one fails', ['succeed', 'succeed', 'fail'], ['', ':2']],
      ['the outermost one conflicts', ['conflict'], ['', ':2', ':3']],
      ['the one between conflicts', ['succeed', 'conflict'], ['', ':2', ':3']],
      ['the innermost one conflicts', ['succeed', 'succeed', 'conflict'], ['', ':2', ':3']],
    ])('each writes in its own transaction, also after the inner one: %s', async (...row) => {
      const [, plan, suffixes] = row;
      const scenario = app.scenario();
      scenario.plan = plan;
      const first = await scenario.post(path);
      expect(first.status).toBe(plan[0] === 'fail' ? 500 : 201);
      await expectCommitted(scenario, suffixes);
      const failed = plan.lastIndexOf('fail') > 0 ? ['Error: planned'] : [];
      const conflicted = plan.includes('conflict') ? ['conflict'] : [];
      expect(scenario.notes).toEqual([...failed, ...conflicted]);
      if (first.status === 201) expectReplay(await scenario.post(path), first);
    });
  });

  it('continues in its transaction after a call that has none', async () => {
    const scenario = app.scenario();
    expect((await scenario.post('/without-transaction')).status).toBe(201);
    expect(scenario.notes).toEqual([undefined]);
    await expectCommitted(scenario, ['']);
  });

  it.each([
    ['succeed', 201, ['']],
    ['fail', 500, []],
  ])('is the same one where a handler calls itself: %s', async (plan, status, suffixes) => {
    const scenario = app.scenario();
    scenario.plan = [plan];
    expect((await scenario.post('/itself')).status).toBe(status);
    await expectCommitted(scenario, suffixes);
  });
});
