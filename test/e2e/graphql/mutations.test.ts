import {
  BadRequestException,
  type CallHandler,
  Catch,
  ClassSerializerInterceptor,
  ConsoleLogger,
  type ExceptionFilter,
  type ExecutionContext,
  Injectable,
  type NestInterceptor,
  NotFoundException,
  type PipeTransform,
  Scope,
  UseFilters,
  UseInterceptors,
  UsePipes,
} from '@nestjs/common';
import {
  Args,
  Context,
  createUnionType,
  Field,
  GraphQLISODateTime,
  Int,
  Mutation,
  ObjectType,
  Parent,
  Query,
  ResolveField,
  Resolver,
} from '@nestjs/graphql';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import {
  IdempotencyContext,
  IdempotencyReconciler,
  IdempotencyService,
  Idempotent,
  isIdempotencyError,
  jsonCodec,
  type Recover,
  requireIdempotencyContext,
} from 'nestjs-idempotency';
import { messagePackCodec } from 'nestjs-idempotency/messagepack';
import { memoryStore } from 'nestjs-idempotency/memory';
import { Exclude } from 'class-transformer';
import { from, map, type Observable, retry } from 'rxjs';
import { GraphQLError } from 'graphql';
import { useStores } from '../../support/http/combinations.js';
import { type Scenario, scenarioOf } from '../../support/http/scenario.js';
import { useServer } from '../../support/servers/use-server.js';
import { until } from '../../support/waiting/until.js';
import { FaultyStore, unavailable } from '../../support/stores/faulty-store.js';
import type { TestApp } from '../../support/http/start-app.js';
import {
  ask,
  codesIn,
  type GraphqlResponse,
  InScenario,
  requestIn,
  startGraphqlApp,
} from './support/graphql-app.js';
import { Charge, charged, PaymentsResolver } from './support/payments.resolver.js';

@ObjectType()
class Order {
  @Field(() => Int)
  execution!: number;

  @Field(() => String, { nullable: true })
  note?: string | null;

  @Field(() => GraphQLISODateTime, { nullable: true })
  at?: Date | string;

  @Field(() => String, { nullable: true })
  atAsText?: Date | string;

  @Field(() => String, { nullable: true })
  title?: string;
}

/** A domain object, part of whose content comes from a getter. */
class OrderEntity {
  constructor(readonly execution: number) {}

  get title(): string {
    return `Order ${this.execution}`;
  }
}

@ObjectType()
class Paid {
  kind = 'paid';

  @Field(() => Int)
  execution!: number;
}

@ObjectType()
class Declined {
  kind = 'declined';

  @Field(() => String)
  reason!: string;
}

const ByClass = createUnionType({ name: 'ByClass', types: () => [Paid, Declined] as const });

const ByMember = createUnionType({
  name: 'ByMember',
  types: () => [Paid, Declined] as const,
  resolveType: ({ kind }: { kind: string }) => (kind === 'paid' ? Paid : Declined),
});

const AT = new Date('2026-11-22T01:02:03.456Z');

class Account {
  readonly title = 'to be seen';

  @Exclude()
  readonly note = 'to be hidden';

  constructor(readonly execution: number) {}
}

let reads = 0;

@Resolver(() => Order)
class OrdersResolver {
  @Mutation(() => Order)
  @Idempotent()
  async order(@InScenario() scenario: Scenario): Promise<Order> {
    return { execution: await scenario.run(), note: null };
  }

  @Mutation(() => Order)
  @Idempotent()
  async orderEntity(@InScenario() scenario: Scenario): Promise<Order> {
    return new OrderEntity(await scenario.run());
  }

  @Mutation(() => Order)
  @UseInterceptors(ClassSerializerInterceptor)
  @Idempotent()
  async account(@InScenario() scenario: Scenario): Promise<Account> {
    return new Account(await scenario.run());
  }

  @Mutation(() => Order)
  @Idempotent({ outcome: { codec: jsonCodec({ dates: 'text' }) } })
  async orderWithTextDate(@InScenario() scenario: Scenario): Promise<Order> {
    return { execution: await scenario.run(), at: AT, atAsText: AT };
  }

  @Mutation(() => Order)
  @Idempotent({ outcome: { codec: messagePackCodec() } })
  async orderWithDate(@InScenario() scenario: Scenario): Promise<Order> {
    return { execution: await scenario.run(), at: AT };
  }

  @Mutation(() => [Order])
  @Idempotent()
  observedOrders(@InScenario() scenario: Scenario) {
    return from([scenario.run().then((execution) => [{ execution }, { execution }])]);
  }

  @Mutation(() => Boolean, { nullable: true })
  @Idempotent()
  async nothing(
    @InScenario() scenario: Scenario,
    @Args('how') how: string,
  ): Promise<boolean | null | undefined> {
    await scenario.run();
    return { true: true, false: false, null: null }[how];
  }

  @Mutation(() => ByClass, { nullable: true })
  @Idempotent()
  async payByClass(@InScenario() scenario: Scenario): Promise<Paid> {
    return Object.assign(new Paid(), { execution: await scenario.run() });
  }

  @Mutation(() => ByMember)
  @Idempotent()
  async payByMember(@InScenario() scenario: Scenario): Promise<Paid> {
    return Object.assign(new Paid(), { execution: await scenario.run() });
  }

  @ResolveField(() => Int)
  reads(): number {
    reads += 1;
    return reads;
  }

  @ResolveField(() => String)
  isDate(@Parent() { at }: Order): string {
    return at instanceof Date ? 'a Date' : typeof at;
  }
}

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

  @Mutation(() => Charge, { nullable: true })
  @Idempotent()
  async fails(@InScenario() scenario: Scenario, @Args('error') error: string) {
    const execution = await scenario.run();
    if (scenario.planned(execution) === 'fail') throw ERRORS[error]!();
    return { execution };
  }

  @Mutation(() => Charge, { nullable: true })
  @Idempotent({ outcome: () => true })
  async failsForGood(@InScenario() scenario: Scenario, @Args('error') error: string) {
    await scenario.run();
    throw ERRORS[error]!();
  }

  @Mutation(() => Charge, { nullable: true })
  @Idempotent()
  async returnsItsError(@InScenario() scenario: Scenario) {
    await scenario.run();
    return ERRORS.graphql!();
  }

  @Mutation(() => Charge, { nullable: true })
  @Idempotent()
  async returnsWhatCannotBeStored(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run(), at: new Date() };
  }

  @Mutation(() => Charge, { nullable: true })
  @Idempotent({ outcome: { storeBody: false } })
  async isNotStored(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Mutation(() => Charge, { nullable: true })
  @Idempotent({ enabled: (() => 'yes') as unknown as (context: ExecutionContext) => boolean })
  async isMisconfigured(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Mutation(() => Charge, { nullable: true })
  @UseFilters(Conflicts)
  @Idempotent()
  async isFiltered(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Mutation(() => Charge, { nullable: true })
  @Idempotent()
  async callsTheService(@InScenario() scenario: Scenario, @Args('amount') amount: string) {
    return this.service.run(
      { operation: 'receipts', key: scenario.key, scope: 'all-callers', payload: amount },
      async () => ({ execution: await scenario.run() }),
    );
  }
}

interface Named {
  readonly amount: number;
}

/** Records each request, and adds to its value. */
const passing = (name: string, addend: number) => {
  @Injectable()
  class Passing implements NestInterceptor {
    intercept(context: ExecutionContext, next: CallHandler<Named>): Observable<Named> {
      const { notes } = scenarioOf(requestIn(context));
      notes.push(`${name} before`);
      return next.handle().pipe(
        map((value) => {
          notes.push(`${name} after`);
          return { ...value, amount: value.amount + addend };
        }),
      );
    }
  }
  return Passing;
};

@Injectable()
class Retrying implements NestInterceptor {
  intercept(_: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(retry(1));
  }
}

@Injectable()
class ExactAmount implements PipeTransform {
  transform(value: unknown): unknown {
    if (value === 13) throw new BadRequestException('an unlucky amount');
    return value;
  }
}

const amountArgument = { type: () => Int, defaultValue: 0 };

@Resolver()
class PipelineResolver {
  // Decorators apply from the bottom: this interceptor runs outside; the one of the next method runs inside.
  @Mutation(() => Charge, { nullable: true })
  @Idempotent()
  @UseInterceptors(passing('outer', 1_000))
  around(@InScenario() scenario: Scenario, @Args('amount', amountArgument) amount: number) {
    scenario.notes.push('resolver');
    return charged(scenario, amount);
  }

  @Mutation(() => Charge, { nullable: true })
  @UseInterceptors(passing('inner', 10))
  @Idempotent()
  inside(@InScenario() scenario: Scenario, @Args('amount', amountArgument) amount: number) {
    scenario.notes.push('resolver');
    return charged(scenario, amount);
  }

  @Mutation(() => Charge, { nullable: true })
  @Idempotent()
  @UseInterceptors(Retrying)
  async retried(@InScenario() scenario: Scenario) {
    const execution = await scenario.run();
    if (scenario.planned(execution) === 'fail') throw new Error('of the first attempt');
    return { execution, amount: requireIdempotencyContext().attempt };
  }

  @Mutation(() => Charge, { nullable: true })
  @UsePipes(ExactAmount)
  @Idempotent({ outcome: () => true, fingerprint: false })
  piped(@InScenario() scenario: Scenario, @Args('amount', amountArgument) amount: number) {
    return charged(scenario, amount);
  }

  @Mutation(() => Charge, { nullable: true })
  @Idempotent({ enabled: (context) => requestIn(context).headers['x-unprotected'] === undefined })
  switched(@InScenario() scenario: Scenario) {
    return charged(scenario, 0);
  }

  @Mutation(() => String, { nullable: true })
  @Idempotent()
  async contextual(
    @InScenario() scenario: Scenario,
    @IdempotencyContext() context: IdempotencyContext,
    @Args('idempotencyKey', { type: () => String, nullable: true }) _key: string | null,
  ) {
    await scenario.run();
    const { key, scope, operation, attempt, isTakeover, isProtected } = context;
    scenario.notes.push({ key, scope, operation, attempt, isTakeover, isProtected });
    return requireIdempotencyContext().key;
  }
}

let instances = 0;

@Resolver()
@Injectable({ scope: Scope.REQUEST })
class RequestScopedResolver {
  private readonly instance = (instances += 1);

  @Mutation(() => Charge, { nullable: true })
  @Idempotent()
  async perRequest(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run(), amount: this.instance };
  }
}

@Resolver(() => Charge)
@Idempotent()
class ProtectedResolver {
  @Query(() => Charge)
  async charges(@InScenario() scenario: Scenario): Promise<Charge> {
    return charged(scenario, 0);
  }

  @Mutation(() => Charge, { nullable: true })
  protectedByClass(@InScenario() scenario: Scenario) {
    return charged(scenario, 0);
  }

  @Mutation(() => Charge, { nullable: true })
  @Idempotent({ key: { required: false } })
  protectedByBoth(@InScenario() scenario: Scenario) {
    return charged(scenario, 0);
  }

  @ResolveField(() => Int)
  requests(@Context() { req }: { req: Parameters<typeof scenarioOf>[0] }): number {
    return scenarioOf(req).arrived.count;
  }
}

const log = new ErrorLog();
const stores = useStores();
let store: FaultyStore;
const app = useServer(() => {
  store = new FaultyStore(stores.fresh('redis'));
  return startGraphqlApp({
    store,
    resolvers: [
      OrdersResolver,
      PaymentsResolver,
      FailingResolver,
      PipelineResolver,
      RequestScopedResolver,
      ProtectedResolver,
    ],
    options: { storeErrors: { commandTimeoutMs: 5_000 } },
    configure: (nest) => nest.useLogger(log),
  });
});
afterEach(() => {
  store.heal();
  log.lines.length = 0;
});

const charge = (field: string) => `mutation { field: ${field} { execution amount } }`;

describe('the value of a mutation', () => {
  const askFor = (scenario: Scenario, field: string, selection = '') =>
    ask(scenario, `mutation { field: ${field} ${selection} }`);

  it('is selected from again by each retry', async () => {
    const scenario = app.scenario();
    const first = await askFor(scenario, 'order', '{ execution }');
    const second = await askFor(scenario, 'order', '{ note same: execution __typename }');
    expect(first.data).toEqual({ field: { execution: 1 } });
    expect(second.data).toEqual({ field: { note: null, same: 1, __typename: 'Order' } });
    expect(scenario.executions).toBe(1);
  });

  it('passes through the field resolvers at each retry', async () => {
    const scenario = app.scenario();
    const first = await askFor(scenario, 'order', '{ execution reads }');
    const second = await askFor(scenario, 'order', '{ execution reads }');
    const firstRead = first.data.field.reads as number;
    expect(second.data.field).toEqual({ execution: 1, reads: firstRead + 1 });
  });

  it('has Date instances again with a codec that keeps them', async () => {
    const scenario = app.scenario();
    const first = await askFor(scenario, 'orderWithDate', '{ execution at isDate }');
    expect(first.data).toEqual({
      field: { execution: 1, at: AT.toISOString(), isDate: 'a Date' },
    });
    expect(await askFor(scenario, 'orderWithDate', '{ execution at isDate }')).toEqual(first);
    expect(scenario.executions).toBe(1);
  });

  it('has strings for dates with the JSON codec, which only a String field can return', async () => {
    const scenario = app.scenario();
    const first = await askFor(scenario, 'orderWithTextDate', '{ atAsText at isDate }');
    // Nest's scalar returns null, and no error, for a value that is not a Date.
    expect(first.data).toEqual({
      field: { atAsText: AT.toISOString(), at: null, isDate: 'string' },
    });
    expect(await askFor(scenario, 'orderWithTextDate', '{ atAsText at isDate }')).toEqual(first);
  });

  it('is reduced to its own members, also for the first caller', async () => {
    const scenario = app.scenario();
    const first = await askFor(scenario, 'orderEntity', '{ execution title }');
    expect(first.data).toEqual({ field: { execution: 1, title: null } });
    expect(await askFor(scenario, 'orderEntity', '{ execution title }')).toEqual(first);
  });

  it('is what a serializer inside the interceptor returns', async () => {
    const scenario = app.scenario();
    const first = await askFor(scenario, 'account', '{ execution title note }');
    expect(first.data).toEqual({ field: { execution: 1, title: 'to be seen', note: null } });
    expect(await askFor(scenario, 'account', '{ execution title note }')).toEqual(first);
  });

  it('gets its type in a union from a member, not from its class', async () => {
    const scenario = app.scenario();
    const selection = '{ __typename ... on Paid { execution } }';
    const paid = await askFor(scenario, 'payByMember', selection);
    expect(paid.data).toEqual({ field: { __typename: 'Paid', execution: 1 } });
    expect(await askFor(scenario, 'payByMember', selection)).toEqual(paid);
    const byClass = app.scenario();
    const untyped = await askFor(byClass, 'payByClass', selection);
    expect(untyped.errors![0]!.message).toContain('cannot be resolved');
  });

  it('is the last value of an Observable', async () => {
    const scenario = app.scenario();
    const first = await askFor(scenario, 'observedOrders', '{ execution }');
    expect(first.data).toEqual({ field: [{ execution: 1 }, { execution: 1 }] });
    expect(await askFor(scenario, 'observedOrders', '{ execution }')).toEqual(first);
    expect(scenario.executions).toBe(1);
  });

  it.each(['true', 'false', 'null', 'undefined'])('may be %s', async (how) => {
    const scenario = app.scenario();
    const first = await askFor(scenario, `nothing(how: "${how}")`);
    expect(first.data).toEqual({ field: { true: true, false: false }[how] ?? null });
    expect(await askFor(scenario, `nothing(how: "${how}")`)).toEqual(first);
    expect(scenario.executions).toBe(1);
  });

  it('is kept when a field below it fails', async () => {
    const scenario = app.scenario();
    const first = await askFor(scenario, 'payByClass', '{ __typename }');
    expect(Object.keys(codesIn(first))).toEqual(['field']);
    await askFor(scenario, 'payByClass', '{ __typename }');
    expect(scenario.executions).toBe(1);
  });
});

describe('duplicates of a mutation', () => {
  const document = 'mutation { charge(amount: 5) { execution amount } }';

  it('execute once when twenty arrive concurrently, and later ones get the stored value [P04]', async () => {
    const scenario = app.scenario();
    scenario.gate.close();
    const responses = Array.from({ length: 20 }, () => ask(scenario, document));
    await scenario.arrived.reached(20);
    scenario.gate.open();
    const settled = await Promise.all(responses);
    const done = settled.filter(({ errors }) => errors === undefined);
    const rejected = settled.filter(({ errors }) => errors !== undefined);
    for (const { data } of done) expect(data).toEqual({ charge: { execution: 1, amount: 5 } });
    for (const response of rejected) {
      expect(codesIn(response)).toEqual({ charge: 'idempotency_in_progress' });
    }
    expect(done.length).toBeGreaterThan(0);
    expect(await ask(scenario, document)).toEqual(done[0]);
    expect(scenario.executions).toBe(1);
  });

  it('execute once when one document contains them', async () => {
    const scenario = app.scenario();
    const { data } = await ask(
      scenario,
      `mutation ($key: String) {
        first: chargeByArgument(amount: 5, idempotencyKey: $key) { execution }
        second: chargeByArgument(amount: 5, idempotencyKey: $key) { execution amount }
        third: chargeByArgument(amount: 6, idempotencyKey: $key) { execution }
      }`,
      { key: null, variables: { key: scenario.key } },
    );
    expect(data).toEqual({
      first: { execution: 1 },
      second: { execution: 1, amount: 5 },
      third: null,
    });
    expect(scenario.executions).toBe(1);
  });

  it('execute only the fields that failed when their document failed in part', async () => {
    const scenario = app.scenario();
    scenario.plan = ['succeed', 'fail'];
    const document = `mutation {
      first: charge(amount: 1) { execution }
      second: chargeByInput(input: { amount: 2 }) { execution }
    }`;
    const response = () => ask(scenario, document);
    expect((await response()).data).toEqual({ first: { execution: 1 }, second: null });
    const done = { first: { execution: 1 }, second: { execution: 3 } };
    expect((await response()).data).toEqual(done);
    expect((await response()).data).toEqual(done);
    expect(scenario.executions).toBe(3);
  });
});

// Before the applications below, whose start takes Nest's logger away from this one.
describe('an error', () => {
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
});

@Resolver()
class WaitingResolver {
  @Mutation(() => Charge)
  @Idempotent({ duplicates: { mode: 'wait', timeoutMs: 20_000 } })
  waitingCharge(
    @InScenario() scenario: Scenario,
    @Args('amount', { type: () => Int }) amount: number,
  ) {
    return charged(scenario, amount);
  }
}

describe('a waiting duplicate whose client has disconnected', () => {
  const store = new FaultyStore(memoryStore());
  const app = useServer(() =>
    startGraphqlApp({
      store,
      resolvers: [WaitingResolver],
      options: { limits: { maxWaiters: 1 } },
    }),
  );

  /** Resolves once the store has received `begin` for that many requests. */
  const begun = (requests: number) =>
    until(() => new Set(store.sentOf('begin').map(({ token }) => token)).size >= requests);

  it('frees its place for another duplicate', async () => {
    const scenario = app.scenario();
    const document = 'mutation { waitingCharge(amount: 5) { execution } }';
    scenario.gate.close();
    const first = ask(scenario, document);
    await begun(1);
    const leaving = scenario.start('POST', '/graphql', { json: { query: document } });
    await begun(2);
    // No place is free for a third one yet.
    const rejected = await ask(scenario, document);
    expect(rejected.errors![0]!.extensions.code).toBe('idempotency_in_progress');
    leaving.abandon();
    await scenario.disconnected.reached(2);
    const staying = ask(scenario, document);
    await begun(4);
    scenario.gate.open();
    expect((await staying).data).toEqual({ waitingCharge: { execution: 1 } });
    expect((await first).data).toEqual({ waitingCharge: { execution: 1 } });
    expect(scenario.executions).toBe(1);
  });
});

const LEASE_MS = 60_000;
const AFTER_MS = 300_000;

/** The charges that the payment provider has recorded. */
@Injectable()
class Provider {
  readonly paid = new Map<string, number>();
}

const lookUp: Recover = ({ key }, services) => ({
  value: { execution: 0, amount: services.get(Provider).paid.get(key) },
});

@Resolver()
class TakeoverResolver {
  @Mutation(() => Charge, { nullable: true })
  @Idempotent({ lease: { durationMs: LEASE_MS, onTakeover: lookUp } })
  looksUpFirst(@InScenario() scenario: Scenario) {
    return charged(scenario, 5);
  }
}

describe('a mutation whose owner was lost', () => {
  let now = Date.UTC(2026, 0, 1);
  let app: TestApp;
  /** Another process. `app` takes over its attempts. */
  let owner: TestApp;

  beforeAll(async () => {
    const options = {
      store: memoryStore({ now: () => now }),
      resolvers: [TakeoverResolver, Provider],
    };
    [app, owner] = [await startGraphqlApp(options), await startGraphqlApp(options)];
  });
  afterAll(() => Promise.all([app.close(), owner.close()]));

  async function abandoned() {
    const scenario = app.scenario();
    scenario.gate.close();
    const document = 'mutation { looksUpFirst { execution amount } }';
    void ask(scenario, document, { port: owner.port });
    await scenario.started.reached(1);
    app.nest.get(Provider).paid.set(`looksUpFirst ${scenario.key}`, 5);
    return { scenario, document };
  }

  it('gets the outcome that "lease.onTakeover" finds', async () => {
    const { scenario, document } = await abandoned();
    now += LEASE_MS;
    const second = await ask(scenario, document);
    expect(second.data).toEqual({ looksUpFirst: { execution: 0, amount: 5 } });
    expect(await ask(scenario, document)).toEqual(second);
    expect(scenario.executions).toBe(1);
  });

  it('gets the outcome that the reconciler finds when no client retries', async () => {
    const { scenario, document } = await abandoned();
    now += LEASE_MS + AFTER_MS;
    const reconciler = app.nest.get(IdempotencyReconciler, { strict: false });
    expect(await reconciler.reconcile()).toMatchObject({ completed: 1 });
    const second = await ask(scenario, document);
    expect(second.data).toEqual({ looksUpFirst: { execution: 0, amount: 5 } });
    expect(scenario.executions).toBe(1);
  });
});

describe('around a mutation', () => {
  it('guards run before its record is read, also for retries', async () => {
    const scenario = app.scenario();
    await ask(scenario, charge('around(amount: 1)'));
    scenario.forbidden.add('alice');
    const response = await ask(scenario, charge('around(amount: 1)'));
    expect(codesIn(response)).toEqual({ field: 'FORBIDDEN' });
    expect(response.data).toEqual({ field: null });
  });

  it('outer interceptors see every retry, and their changes are not stored', async () => {
    const scenario = app.scenario();
    const first = await ask(scenario, charge('around(amount: 1)'));
    expect(first.data).toEqual({ field: { execution: 1, amount: 1_001 } });
    expect(await ask(scenario, charge('around(amount: 1)'))).toEqual(first);
    expect(scenario.notes).toEqual([
      'outer before',
      'resolver',
      'outer after',
      'outer before',
      'outer after',
    ]);
  });

  it('inner interceptors are part of it', async () => {
    const scenario = app.scenario();
    const first = await ask(scenario, charge('inside(amount: 1)'));
    expect(first.data).toEqual({ field: { execution: 1, amount: 11 } });
    expect(await ask(scenario, charge('inside(amount: 1)'))).toEqual(first);
    expect(scenario.notes).toEqual(['inner before', 'resolver', 'inner after']);
  });

  it('an outer interceptor may retry, which is a new attempt', async () => {
    const scenario = app.scenario();
    scenario.plan = ['fail'];
    const { data } = await ask(scenario, charge('retried'));
    expect(data).toEqual({ field: { execution: 2, amount: 2 } });
    expect((await ask(scenario, charge('retried'))).data).toEqual(data);
    expect(scenario.executions).toBe(2);
  });

  it('a rejection by a pipe is not an outcome, whatever is kept', async () => {
    const scenario = app.scenario();
    const rejected = await ask(scenario, charge('piped(amount: 13)'));
    expect(codesIn(rejected)).toEqual({ field: 'BAD_REQUEST' });
    const { data } = await ask(scenario, charge('piped(amount: 14)'));
    expect(data).toEqual({ field: { execution: 1, amount: 14 } });
  });
});

describe('a mutation', () => {
  it('knows its key, its caller and its attempt', async () => {
    const scenario = app.scenario();
    const { key } = scenario;
    const byArgument = await ask(scenario, `mutation { contextual(idempotencyKey: "${key}") }`);
    expect(byArgument.data).toEqual({ contextual: key });
    const byHeader = await ask(scenario, 'mutation { alias: contextual }');
    expect(byHeader.data).toEqual({ alias: `alias ${key}` });
    expect(scenario.notes[0]).toEqual({
      key,
      scope: ['alice'],
      operation: 'PipelineResolver.contextual',
      attempt: 1,
      isTakeover: false,
      isProtected: true,
    });
  });

  it('is unprotected when the option "enabled" returns false', async () => {
    const scenario = app.scenario();
    const headers = [['X-Unprotected', 'yes']] as const;
    await ask(scenario, charge('switched'), { headers });
    await ask(scenario, charge('switched'), { headers });
    expect(scenario.executions).toBe(2);
    await ask(scenario, charge('switched'));
    await ask(scenario, charge('switched'));
    expect(scenario.executions).toBe(3);
  });

  it('of a request-scoped resolver is protected like any other', async () => {
    const scenario = app.scenario();
    const first = await ask(scenario, charge('perRequest'));
    const second = await ask(scenario, charge('perRequest'));
    expect(first.data.field).toEqual({ execution: 1, amount: instances - 1 });
    expect(second).toEqual(first);
    const other = app.scenario();
    expect((await ask(other, charge('perRequest'))).data.field.amount).toBe(instances);
  });
});

describe('@Idempotent() on a resolver’s class', () => {
  it('protects its mutations', async () => {
    const scenario = app.scenario();
    const unkeyed = await ask(scenario, 'mutation { protectedByClass { execution } }', {
      key: null,
    });
    expect(codesIn(unkeyed)).toEqual({ protectedByClass: 'idempotency_key_missing' });
    const first = await ask(scenario, charge('protectedByClass'));
    expect(await ask(scenario, charge('protectedByClass'))).toEqual(first);
    expect(scenario.executions).toBe(1);
  });

  it('is merged with the one on a method', async () => {
    const scenario = app.scenario();
    await ask(scenario, 'mutation { protectedByBoth { execution } }', { key: null });
    await ask(scenario, charge('protectedByBoth'));
    await ask(scenario, charge('protectedByBoth'));
    expect(scenario.executions).toBe(2);
  });

  it('leaves queries and fields unprotected', async () => {
    const scenario = app.scenario();
    const asked = () => ask(scenario, '{ charges { execution requests } }');
    expect((await asked()).data).toEqual({ charges: { execution: 1, requests: 1 } });
    expect((await asked()).data).toEqual({ charges: { execution: 2, requests: 2 } });
  });
});

describe('a schema-first schema', () => {
  @Resolver('Mutation')
  @Injectable()
  class ByMethodResolver {
    @Mutation('charge')
    @Idempotent()
    charge(@InScenario() scenario: Scenario, @Args('amount') amount: number) {
      return charged(scenario, amount);
    }
  }

  @Idempotent()
  @Resolver('Mutation')
  class ByClassResolver {
    @ResolveField('refund')
    refund(@InScenario() scenario: Scenario, @Args('amount') amount: number) {
      return charged(scenario, amount);
    }
  }

  it('has its mutations protected', async () => {
    const typeDefs = `
      type Charge { execution: Int! amount: Int! }
      type Query { isHealthy: Boolean! }
      type Mutation { charge(amount: Int!): Charge refund(amount: Int!): Charge }
    `;
    const handWritten = await startGraphqlApp({
      store: memoryStore(),
      resolvers: [ByMethodResolver, ByClassResolver],
      driver: { autoSchemaFile: false, typeDefs },
    });
    try {
      for (const field of ['charge(amount: 1)', 'refund(amount: 1)']) {
        const scenario = handWritten.scenario();
        const first = await ask(scenario, charge(field));
        expect(first.data).toEqual({ field: { execution: 1, amount: 1 } });
        expect(await ask(scenario, charge(field))).toEqual(first);
        expect(scenario.executions).toBe(1);
      }
    } finally {
      await handWritten.close();
    }
  });
});
