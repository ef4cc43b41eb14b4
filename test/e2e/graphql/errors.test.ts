import {
  BadRequestException,
  Catch,
  ConsoleLogger,
  NotFoundException,
  UseFilters,
  type ExceptionFilter,
  type ExecutionContext,
} from '@nestjs/common';
import { Args, Field, Int, Mutation, ObjectType, Resolver } from '@nestjs/graphql';
import { afterEach, describe, expect, it } from '@jest/globals';
import { GraphQLError } from 'graphql';
import { Idempotent, IdempotencyService, isIdempotencyError } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { FaultyStore, unavailable } from '../../support/stores/faulty-store.js';
import type { Scenario } from '../../support/http/scenario.js';
import { useServer } from '../../support/servers/use-server.js';
import { ask, codesIn, startGraphqlApp, type GraphqlResponse } from './support/graphql-app.js';
import { InScenario } from './support/in-scenario.js';
import { PaymentsResolver } from './support/payments.resolver.js';

/** Collects the error lines instead of printing them. */
class ErrorLog extends ConsoleLogger {
  readonly lines: string[] = [];
  protected override printMessages(messages: unknown[], _context = '', level = 'log'): void {
    if (level === 'error') this.lines.push(...messages.map(String));
  }
}

@Catch()
class Conflicts implements ExceptionFilter {
  catch(exception: unknown): unknown {
    if (!isIdempotencyError(exception)) return exception;
    return new GraphQLError('from a filter', { extensions: { of: exception.code } });
  }
}

@ObjectType()
class Receipt {
  @Field(() => Int)
  execution!: number;
}

/** The errors that a resolver can throw, by name. */
const ERRORS: Readonly<Record<string, () => Error>> = {
  graphql: () =>
    new GraphQLError('no cover', { extensions: { code: 'NO_COVER', limit: { eur: 100 } } }),
  notFound: () => new NotFoundException('no such account'),
  badRequest: () => new BadRequestException({ statusCode: 400, error: 'of its own' }),
  plain: () => new Error('the database said something secret'),
};

@Resolver()
class FailingResolver {
  constructor(private readonly service: IdempotencyService) {}

  @Mutation(() => Receipt, { nullable: true })
  @Idempotent()
  async fails(@InScenario() scenario: Scenario, @Args('error') error: string) {
    const execution = await scenario.run();
    if (scenario.planned(execution) === 'fail') throw ERRORS[error]!();
    return { execution };
  }

  @Mutation(() => Receipt, { nullable: true })
  @Idempotent({ outcome: () => true })
  async failsForGood(@InScenario() scenario: Scenario, @Args('error') error: string) {
    await scenario.run();
    throw ERRORS[error]!();
  }

  @Mutation(() => Receipt, { nullable: true })
  @Idempotent()
  async returnsItsError(@InScenario() scenario: Scenario) {
    await scenario.run();
    return ERRORS.graphql!();
  }

  @Mutation(() => Receipt, { nullable: true })
  @Idempotent()
  async returnsWhatCannotBeStored(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run(), at: new Date() };
  }

  @Mutation(() => Receipt, { nullable: true })
  @Idempotent({ outcome: { storeBody: false } })
  async isNotStored(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Mutation(() => Receipt, { nullable: true })
  @Idempotent({ enabled: (() => 'yes') as unknown as (context: ExecutionContext) => boolean })
  async isMisconfigured(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Mutation(() => Receipt, { nullable: true })
  @UseFilters(Conflicts)
  @Idempotent()
  async isFiltered(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Mutation(() => Receipt, { nullable: true })
  @Idempotent()
  async callsTheService(@InScenario() scenario: Scenario, @Args('amount') amount: string) {
    return this.service.run(
      { operation: 'receipts', key: scenario.key, scope: 'all-callers', payload: amount },
      async () => ({ execution: await scenario.run() }),
    );
  }
}

const log = new ErrorLog();
const store = new FaultyStore(memoryStore());

const app = useServer(() =>
  startGraphqlApp({
    store,
    resolvers: [PaymentsResolver, FailingResolver],
    configure: (nest) => {
      nest.useLogger(log);
    },
  }),
);
afterEach(() => {
  store.heal();
  log.lines.length = 0;
});

const mutation = (field: string) => `mutation { field: ${field} { execution } }`;

const codeOf = (response: GraphqlResponse) => codesIn(response).field;

/** Neither the response nor the log contains the key or the caller. */
function expectDiscretion(scenario: Scenario, response: GraphqlResponse): void {
  for (const secret of [scenario.key, 'alice']) {
    expect(JSON.stringify(response)).not.toContain(secret);
    expect(log.lines.join('\n')).not.toContain(secret);
  }
}

describe('a rejection', () => {
  it('of another payload says so, does not expose the key, and is not logged', async () => {
    const scenario = app.scenario();
    await ask(scenario, mutation('charge(amount: 1)'));
    const response = await ask(scenario, mutation('charge(amount: 2)'));
    expect(response).toEqual({
      status: 200,
      data: { field: null },
      errors: [
        {
          message: 'The idempotency key was already used with another payload.',
          path: ['field'],
          locations: [{ line: 1, column: 12 }],
          extensions: { code: 'idempotency_key_reused' },
        },
      ],
    });
    expectDiscretion(scenario, response);
    expect(log.lines).toEqual([]);
  });

  it('of an unavailable store may be retried, and the mutation has not run', async () => {
    const scenario = app.scenario();
    store.always(unavailable, 'begin');
    const response = await ask(scenario, mutation('charge(amount: 1)'));
    expect(response.errors![0]!.extensions).toEqual({
      code: 'idempotency_store_unavailable',
      retryAfterMs: 1_000,
    });
    expect(response.status).toBe(200);
    expect(scenario.executions).toBe(0);
    store.heal();
    const second = await ask(scenario, mutation('charge(amount: 1)'));
    expect(second.data.field.execution).toBe(1);
  });

  it('of a value that was not kept says that the mutation is complete', async () => {
    const scenario = app.scenario();
    const first = await ask(scenario, mutation('isNotStored'));
    expect(first.data.field.execution).toBe(1);
    const second = await ask(scenario, mutation('isNotStored'));
    expect(codeOf(second)).toBe('idempotency_response_not_kept');
    expectDiscretion(scenario, second);
    expect(scenario.executions).toBe(1);
  });

  it('reaches exception filters, with its code', async () => {
    const scenario = app.scenario();
    const response = await ask(scenario, mutation('isFiltered'), { key: null });
    expect(response.errors![0]).toMatchObject({
      message: 'from a filter',
      extensions: { of: 'idempotency_key_missing' },
    });
  });

  it('of a service call inside the mutation keeps its code', async () => {
    const scenario = app.scenario();
    const receipt = (amount: string, key: string) =>
      ask(scenario, mutation(`callsTheService(amount: "${amount}")`), { key });
    await receipt('1', 'the-first');
    const response = await receipt('2', 'the-second');
    expect(codeOf(response)).toBe('idempotency_key_reused');
    expect(scenario.executions).toBe(1);
  });
});

describe('a mutation that failed', () => {
  it.each([
    ['graphql', 'no cover', 'NO_COVER'],
    ['notFound', 'no such account', 'INTERNAL_SERVER_ERROR'],
    ['plain', 'the database said something secret', 'INTERNAL_SERVER_ERROR'],
  ])(
    'returns the error that it returns without @Idempotent() (%s), and runs again',
    async (name, message, code) => {
      const scenario = app.scenario();
      scenario.plan = ['fail'];
      const document = mutation(`fails(error: "${name}")`);
      const first = await ask(scenario, document);
      expect(first.errors![0]!.message).toBe(message);
      expect(codeOf(first)).toBe(code);
      expect((await ask(scenario, document)).data).toEqual({ field: { execution: 2 } });
      expect((await ask(scenario, document)).data).toEqual({ field: { execution: 2 } });
      expect(scenario.executions).toBe(2);
    },
  );

  it.each(['graphql', 'notFound', 'badRequest'])(
    'returns the same error again (%s) when the failure is kept',
    async (name) => {
      const scenario = app.scenario();
      const document = mutation(`failsForGood(error: "${name}")`);
      const first = await ask(scenario, document);
      expect(first.errors).toHaveLength(1);
      log.lines.length = 0;
      expect(await ask(scenario, document)).toEqual(first);
      expect(log.lines).toEqual([]);
      expect(scenario.executions).toBe(1);
    },
  );

  it('replays nothing of an internal error when the failure is kept', async () => {
    const scenario = app.scenario();
    const document = mutation('failsForGood(error: "plain")');
    await ask(scenario, document);
    const second = await ask(scenario, document);
    expect(codeOf(second)).toBe('idempotency_failure_replayed');
    expect(JSON.stringify(second)).not.toContain('secret');
    expect(scenario.executions).toBe(1);
  });

  it('fails also when it returns the error', async () => {
    const scenario = app.scenario();
    const document = mutation('returnsItsError');
    expect(codeOf(await ask(scenario, document))).toBe('NO_COVER');
    expect(codeOf(await ask(scenario, document))).toBe('NO_COVER');
    expect(scenario.executions).toBe(2);
  });
});

describe('a completed mutation', () => {
  it('reports where its value cannot be stored, to the client and in the log, and does not run again', async () => {
    const scenario = app.scenario();
    const document = mutation('returnsWhatCannotBeStored');
    const first = await ask(scenario, document);
    expect(codeOf(first)).toBe('idempotency_value_not_storable');
    expect(first.errors![0]!.message).toContain('value.at is a Date');
    expect(log.lines.join('\n')).toContain('value.at is a Date');
    expect(codeOf(await ask(scenario, document))).toBe('idempotency_response_not_kept');
    expect(scenario.executions).toBe(1);
  });
});

it('an invalid option is logged as a server error, and the mutation does not run', async () => {
  const scenario = app.scenario();
  const response = await ask(scenario, mutation('isMisconfigured'));
  expect(codeOf(response)).toBe('idempotency_options_invalid');
  expect(log.lines.join('\n')).toMatch(
    /option "enabled" of FailingResolver\.isMisconfigured must return true or false synchronously/,
  );
  expect(scenario.executions).toBe(0);
});
