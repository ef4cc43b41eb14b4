import {
  BadRequestException,
  Injectable,
  Scope,
  UseInterceptors,
  UsePipes,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
  type PipeTransform,
} from '@nestjs/common';
import { Args, Context, Int, Mutation, Query, ResolveField, Resolver } from '@nestjs/graphql';
import { describe, expect, it } from '@jest/globals';
import { IdempotencyContext, Idempotent, requireIdempotencyContext } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { map, retry, type Observable } from 'rxjs';
import { useStores } from '../../support/http/combinations.js';
import { scenarioOf, type Scenario } from '../../support/http/scenario.js';
import { useServer } from '../../support/servers/use-server.js';
import { ask, codesIn, startGraphqlApp } from './support/graphql-app.js';
import { InScenario, requestIn } from './support/in-scenario.js';
import { Charge, charged } from './support/payments.resolver.js';

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

const stores = useStores();
const app = useServer(() =>
  startGraphqlApp({
    store: stores.fresh('redis'),
    resolvers: [PipelineResolver, RequestScopedResolver, ProtectedResolver],
    options: { storeErrors: { commandTimeoutMs: 5_000 } },
  }),
);

const charge = (field: string) => `mutation { field: ${field} { execution amount } }`;

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
