import { randomBytes } from 'node:crypto';
import {
  BadRequestException,
  type CallHandler,
  Catch,
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
import { afterEach, describe, expect, it } from '@jest/globals';
import {
  IdempotencyContext,
  type IdempotencyEvent,
  IdempotencyEvents,
  IdempotencyReconciler,
  Idempotent,
  isIdempotencyError,
  jsonCodec,
  type Recover,
  requireIdempotencyContext,
} from 'nestjs-idempotency';
import { messagePackCodec } from 'nestjs-idempotency/messagepack';
import { memoryStore } from 'nestjs-idempotency/memory';
import { map, type Observable } from 'rxjs';
import { GraphQLError } from 'graphql';
import { useStores } from '../../support/http/combinations.js';
import { type Scenario, scenarioOf } from '../../support/http/scenario.js';
import { afterTest } from '../../support/jest/after-test.js';
import { useServer } from '../../support/servers/use-server.js';
import { until } from '../../support/waiting/until.js';
import { folderOfBlobs } from '../../support/stores/folder-of-blobs.js';
import { FaultyStore, unavailable } from '../../support/stores/faulty-store.js';
import {
  ask,
  type Asking,
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
}

@ObjectType()
class Paid {
  @Field(() => Int)
  execution!: number;
}

const ByClass = createUnionType({ name: 'ByClass', types: () => [Paid] as const });

const AT = new Date('2026-11-22T01:02:03.456Z');

let reads = 0;

@Resolver(() => Order)
class OrdersResolver {
  @Mutation(() => Order)
  @Idempotent()
  async order(@InScenario() scenario: Scenario): Promise<Order> {
    return { execution: await scenario.run(), note: null };
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

  @Mutation(() => ByClass, { nullable: true })
  @Idempotent()
  async payByClass(@InScenario() scenario: Scenario): Promise<Paid> {
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

@Resolver()
class LargeResolver {
  @Mutation(() => String)
  @Idempotent()
  async large(@InScenario() scenario: Scenario): Promise<string> {
    await scenario.run();
    return randomBytes(100_000).toString('hex');
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
class ExactAmount implements PipeTransform {
  transform(value: unknown): unknown {
    if (value === 13) throw new BadRequestException('an unlucky amount');
    return value;
  }
}

const amountArgument = { type: () => Int, defaultValue: 0 };

@Resolver()
class PipelineResolver {
  // Decorators apply from the bottom: the last interceptor runs outside.
  @Mutation(() => Charge, { nullable: true })
  @UseInterceptors(passing('inner', 10))
  @Idempotent()
  @UseInterceptors(passing('outer', 1_000))
  around(@InScenario() scenario: Scenario, @Args('amount', amountArgument) amount: number) {
    scenario.notes.push('resolver');
    return charged(scenario, amount);
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

  @Mutation(() => Charge, { nullable: true })
  @Idempotent({ key: { required: false } })
  keyed(@InScenario() scenario: Scenario) {
    return charged(scenario, 0);
  }

  @Mutation(() => Charge, { nullable: true })
  @Idempotent({ caller: { anonymous: 'ignore' } })
  called(@InScenario() scenario: Scenario) {
    return charged(scenario, 0);
  }

  @Mutation(() => Charge, { nullable: true })
  @Idempotent({ duplicates: { mode: 'wait', timeout: 20_000 } })
  waiting(@InScenario() scenario: Scenario) {
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

@Resolver()
@Injectable({ scope: Scope.REQUEST })
class RequestScopedResolver {
  @Mutation(() => Charge, { nullable: true })
  @Idempotent()
  perRequest(@InScenario() scenario: Scenario) {
    return charged(scenario, 0);
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

  @ResolveField(() => Int)
  requests(@Context() { req }: { req: Parameters<typeof scenarioOf>[0] }): number {
    return scenarioOf(req).arrived.count;
  }
}

const log = new ErrorLog();
const events: IdempotencyEvent[] = [];
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
    options: { storeErrors: { commandTimeout: 5_000 }, limits: { maxWaiters: 1 } },
    configure: (nest) => {
      nest.useLogger(log);
      nest.get(IdempotencyEvents, { strict: false }).subscribe((event) => events.push(event));
    },
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

  it('is selected from again by each retry, through the field resolvers', async () => {
    const scenario = app.scenario();
    const first = await askFor(scenario, 'order', '{ execution reads }');
    const second = await askFor(scenario, 'order', '{ note same: execution reads __typename }');
    const firstRead = first.data.field.reads as number;
    expect(first.data.field).toEqual({ execution: 1, reads: firstRead });
    expect(second.data).toEqual({
      field: { note: null, same: 1, reads: firstRead + 1, __typename: 'Order' },
    });
    expect(scenario.executions).toBe(1);
  });

  it.each([
    [
      'Date instances again with a codec that keeps them',
      'orderWithDate',
      { execution: 1, at: AT.toISOString(), isDate: 'a Date' },
    ],
    [
      'strings for dates with the JSON codec, which only a String field can return',
      'orderWithTextDate',
      // Nest's scalar returns null, and no error, for a value that is not a Date.
      { atAsText: AT.toISOString(), at: null, isDate: 'string' },
    ],
  ])('has %s', async (_, field, selected) => {
    const scenario = app.scenario();
    const selection = `{ ${Object.keys(selected).join(' ')} }`;
    const first = await askFor(scenario, field, selection);
    expect(first.data).toEqual({ field: selected });
    expect(await askFor(scenario, field, selection)).toEqual(first);
    expect(scenario.executions).toBe(1);
  });

  it('has no class, also for the first caller, and is kept when a field below it fails', async () => {
    const scenario = app.scenario();
    const untyped = await askFor(scenario, 'payByClass', '{ __typename }');
    expect(codesIn(untyped)).toEqual({ field: 'INTERNAL_SERVER_ERROR' });
    expect(untyped.errors![0]!.message).toContain('cannot be resolved');
    expect(await askFor(scenario, 'payByClass', '{ __typename }')).toEqual(untyped);
    expect(scenario.executions).toBe(1);
  });
});

describe('duplicates of a mutation', () => {
  /** How many requests' `begin` the store has received. */
  const begun = () => new Set(store.sentOf('begin').map(({ token }) => token)).size;

  it('execute once: one that arrives meanwhile is rejected, later ones get the stored value [P04]', async () => {
    const scenario = app.scenario();
    const document = 'mutation { charge(amount: 5) { execution amount } }';
    scenario.gate.close();
    const first = ask(scenario, document);
    await scenario.started.reached(1);
    const rejected = await ask(scenario, document);
    expect(rejected.errors![0]!.extensions).toEqual({
      code: 'idempotency_in_progress',
      retryAfterMs: 1_000,
    });
    scenario.gate.open();
    expect((await first).data).toEqual({ charge: { execution: 1, amount: 5 } });
    expect(await ask(scenario, document)).toEqual(await first);
    expect(scenario.executions).toBe(1);
  });

  it('get the value of the one that runs where they wait; one whose client leaves frees its place', async () => {
    const scenario = app.scenario();
    const document = 'mutation { waiting { execution } }';
    const before = begun();
    const begunSince = (requests: number) => until(() => begun() >= before + requests);
    scenario.gate.close();
    const first = ask(scenario, document);
    await begunSince(1);
    const leaving = scenario.start('POST', '/graphql', { json: { query: document } });
    await begunSince(2);
    // No place is free for a third one yet.
    const rejected = await ask(scenario, document);
    expect(codesIn(rejected)).toEqual({ waiting: 'idempotency_in_progress' });
    leaving.abandon();
    await scenario.disconnected.reached(2);
    // A place is free a moment after its client's socket is closed.
    const stays = async (): ReturnType<typeof ask> => {
      const response = await ask(scenario, document);
      return response.errors === undefined ? response : stays();
    };
    const staying = stays();
    await begunSince(4);
    scenario.gate.open();
    expect((await staying).data).toEqual({ waiting: { execution: 1 } });
    expect(await first).toEqual(await staying);
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
  });

  describe('a mutation that failed', () => {
    it.each([
      ['graphql', 'no cover', 'NO_COVER'],
      ['notFound', 'no such account', 'INTERNAL_SERVER_ERROR'],
      ['badRequest', 'Bad Request Exception', 'BAD_REQUEST'],
    ])(
      'returns the same error again (%s) when the failure is kept',
      async (name, message, code) => {
        const scenario = app.scenario();
        const document = mutation(`failsForGood(error: "${name}")`);
        const first = await ask(scenario, document);
        expect(first.errors).toMatchObject([{ message, extensions: { code } }]);
        log.lines.length = 0;
        expect(await ask(scenario, document)).toEqual(first);
        expect(log.lines).toEqual([]);
        expect(scenario.executions).toBe(1);
      },
    );

    it('returns an internal error as it is without @Idempotent(), and replays nothing of it', async () => {
      const scenario = app.scenario();
      const document = mutation('failsForGood(error: "plain")');
      const first = await ask(scenario, document);
      expect(first.errors![0]!.message).toBe('the database said something secret');
      expect(codeOf(first)).toBe('INTERNAL_SERVER_ERROR');
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

  it('says where a value cannot be stored, to the client and in the log, and the mutation does not run again', async () => {
    const scenario = app.scenario();
    const document = mutation('returnsWhatCannotBeStored');
    const first = await ask(scenario, document);
    expect(codeOf(first)).toBe('idempotency_value_not_storable');
    expect(first.errors![0]!.message).toContain('value.at is a Date');
    expect(log.lines.join('\n')).toContain('value.at is a Date');
    expect(codeOf(await ask(scenario, document))).toBe('idempotency_response_not_kept');
    expect(scenario.executions).toBe(1);
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

const LEASE_MS = 60_000;
const AFTER_MS = 300_000;

/** The provider knows the key: that of a header, which has the field's name in front. */
const lookUp: Recover = ({ key }) => ({
  value: { execution: 0, amount: key.startsWith('looksUpFirst ') ? 5 : 0 },
});

@Resolver()
class TakeoverResolver {
  @Mutation(() => Charge, { nullable: true })
  @Idempotent({ lease: { duration: LEASE_MS, onTakeover: lookUp } })
  looksUpFirst(@InScenario() scenario: Scenario) {
    return charged(scenario, 5);
  }
}

describe('a mutation whose owner was lost', () => {
  let now = Date.UTC(2026, 0, 1);
  const store = memoryStore({ now: () => now });
  const start = () => startGraphqlApp({ store, resolvers: [TakeoverResolver] });
  const app = useServer(start);
  /** Another process. `app` takes over its attempts. */
  const owner = useServer(start);

  it('gets the outcome that the reconciler finds when no client retries', async () => {
    const scenario = app.scenario();
    scenario.gate.close();
    const document = 'mutation { looksUpFirst { execution amount } }';
    const first = ask(scenario, document, { port: owner.port });
    await scenario.started.reached(1);
    now += LEASE_MS + AFTER_MS;
    const reconciler = app.nest.get(IdempotencyReconciler, { strict: false });
    expect(await reconciler.reconcile()).toMatchObject({ completed: 1 });
    const second = await ask(scenario, document);
    expect(second.data).toEqual({ looksUpFirst: { execution: 0, amount: 5 } });
    expect(scenario.executions).toBe(1);
    scenario.gate.open();
    await first;
  });
});

describe('around a mutation', () => {
  it('guards and outer interceptors see every retry, and inner ones belong to it', async () => {
    const scenario = app.scenario();
    const first = await ask(scenario, charge('around(amount: 1)'));
    expect(first.data).toEqual({ field: { execution: 1, amount: 1_011 } });
    expect(await ask(scenario, charge('around(amount: 1)'))).toEqual(first);
    scenario.forbidden.add('alice');
    const forbidden = await ask(scenario, charge('around(amount: 1)'));
    expect(codesIn(forbidden)).toEqual({ field: 'FORBIDDEN' });
    expect(forbidden.data).toEqual({ field: null });
    expect(scenario.notes).toEqual([
      'outer before',
      'inner before',
      'resolver',
      'inner after',
      'outer after',
      'outer before',
      'outer after',
    ]);
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

  it.each<[string, string, Asking]>([
    ['disabled', 'switched', { headers: [['X-Unprotected', 'yes']] }],
    ['no_key', 'keyed', { key: null }],
    ['no_caller', 'called', { as: null }],
  ])(
    'runs unprotected where its options say so, which is reported: %s',
    async (reason, field, asking) => {
      const scenario = app.scenario();
      events.length = 0;
      await ask(scenario, charge(field), asking);
      await ask(scenario, charge(field), asking);
      expect(scenario.executions).toBe(2);
      const operation = `PipelineResolver.${field}`;
      const event = { type: 'unprotected', operation, transport: 'graphql', reason };
      expect(events).toEqual([event, event]);
      await ask(scenario, charge(field));
      await ask(scenario, charge(field));
      expect(scenario.executions).toBe(3);
    },
  );

  it('is reported when its request is invalid, with a header that probably has the key', async () => {
    const scenario = app.scenario();
    events.length = 0;
    const keyHeader = 'X-Idempotency-Key';
    const rejected = await ask(scenario, charge('switched'), { keyHeader });
    expect(codesIn(rejected)).toEqual({ field: 'idempotency_key_missing' });
    const about = { operation: 'PipelineResolver.switched', transport: 'graphql' };
    expect(events).toEqual([
      { type: 'invalid_request', ...about, reason: 'key_missing' },
      { type: 'key_misnamed', ...about, name: 'x-idempotency-key' },
    ]);
  });

  it.each([
    ['of a request-scoped resolver', 'perRequest'],
    ['of a resolver whose class has the decorator', 'protectedByClass'],
  ])('%s is protected like any other', async (_, field) => {
    const scenario = app.scenario();
    const unkeyed = await ask(scenario, charge(field), { key: null });
    expect(codesIn(unkeyed)).toEqual({ field: 'idempotency_key_missing' });
    const first = await ask(scenario, charge(field));
    expect(first.data.field.execution).toBe(1);
    expect(await ask(scenario, charge(field))).toEqual(first);
    expect(scenario.executions).toBe(1);
  });

  it('alone is protected by the decorator of its class, not the queries and fields beside it', async () => {
    const scenario = app.scenario();
    const asked = () => ask(scenario, '{ charges { execution requests } }');
    expect((await asked()).data).toEqual({ charges: { execution: 1, requests: 1 } });
    expect((await asked()).data).toEqual({ charges: { execution: 2, requests: 2 } });
  });
});

describe('a schema-first schema', () => {
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
      type Mutation { refund(amount: Int!): Charge }
    `;
    const handWritten = await startGraphqlApp({
      store: memoryStore(),
      resolvers: [ByClassResolver],
      driver: { autoSchemaFile: false, typeDefs },
    });
    try {
      const scenario = handWritten.scenario();
      const first = await ask(scenario, charge('refund(amount: 1)'));
      expect(first.data).toEqual({ field: { execution: 1, amount: 1 } });
      expect(await ask(scenario, charge('refund(amount: 1)'))).toEqual(first);
      expect(scenario.executions).toBe(1);
    } finally {
      await handWritten.close();
    }
  });
});

// Last: another application takes the log over.
it('the value of a mutation with more than outcome.maxBytes is in the blob store, and replayed from there', async () => {
  const blobs = await folderOfBlobs();
  const own = await startGraphqlApp({
    store: memoryStore(),
    resolvers: [LargeResolver],
    options: { blobs: blobs.store, outcome: { maxBytes: 50_000 } },
  });
  afterTest(() => own.close());
  const scenario = own.scenario();
  const document = 'mutation { large }';
  const first = await ask(scenario, document);
  expect(first.data.large).toHaveLength(200_000);
  expect(await blobs.names()).toHaveLength(1);
  expect((await ask(scenario, document)).data).toEqual(first.data);
  await blobs.clear();
  expect(codesIn(await ask(scenario, document))).toEqual({
    large: 'idempotency_response_not_kept',
  });
  expect(scenario.executions).toBe(1);
});
