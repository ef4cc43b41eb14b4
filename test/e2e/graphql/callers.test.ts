import type { ExecutionContext } from '@nestjs/common';
import { Mutation, Resolver } from '@nestjs/graphql';
import { describe, expect, it } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import type { Scenario } from '../../support/http/scenario.js';
import { useServer } from '../../support/servers/use-server.js';
import { ask, codesIn, startGraphqlApp } from './support/graphql-app.js';
import { InScenario, requestIn } from './support/in-scenario.js';
import { Charge, charged } from './support/payments.resolver.js';

const tenantAndUser = (context: ExecutionContext) => {
  const { tenant, id } = requestIn(context).user as { tenant: string; id: string };
  return [tenant, id];
};

@Resolver()
class CallersResolver {
  @Mutation(() => Charge, { nullable: true })
  @Idempotent()
  byUser(@InScenario() scenario: Scenario) {
    return charged(scenario, 0);
  }

  @Mutation(() => Charge, { nullable: true })
  @Idempotent({ caller: { scope: tenantAndUser } })
  byTenant(@InScenario() scenario: Scenario) {
    return charged(scenario, 0);
  }

  @Mutation(() => Charge, { nullable: true })
  @Idempotent({ caller: { anonymous: 'ignore' } })
  unprotected(@InScenario() scenario: Scenario) {
    return charged(scenario, 0);
  }

  @Mutation(() => Charge, { nullable: true })
  @Idempotent({ caller: { anonymous: 'shared' } })
  shared(@InScenario() scenario: Scenario) {
    return charged(scenario, 0);
  }

  @Mutation(() => Charge, { nullable: true })
  @Idempotent({ key: { uniqueFor: 'principal' } })
  overAllOperations(@InScenario() scenario: Scenario) {
    return charged(scenario, 0);
  }

  @Mutation(() => Charge, { nullable: true })
  @Idempotent({ key: { uniqueFor: 'principal' } })
  overAllOperationsToo(@InScenario() scenario: Scenario) {
    return charged(scenario, 0);
  }
}

describe('the caller of a mutation', () => {
  const app = useServer(() =>
    startGraphqlApp({ store: memoryStore(), resolvers: [CallersResolver] }),
  );

  async function execution(scenario: Scenario, field: string, as: string | null): Promise<number> {
    const document = `mutation { field: ${field} { execution } }`;
    const { data } = await ask(scenario, document, { as });
    return data.field.execution as number;
  }

  it('is the user that the guard sets on the request', async () => {
    const scenario = app.scenario();
    expect(await execution(scenario, 'byUser', 'alice')).toBe(1);
    expect(await execution(scenario, 'byUser', 'bob')).toBe(2);
    expect(await execution(scenario, 'byUser', 'alice')).toBe(1);
    expect(await execution(scenario, 'byUser', 'bob')).toBe(2);
  });

  it('is what the option "scope" returns, tenant included', async () => {
    const scenario = app.scenario();
    expect(await execution(scenario, 'byTenant', 'bob')).toBe(1);
    expect(await execution(scenario, 'byTenant', 'robert')).toBe(2);
    expect(await execution(scenario, 'byTenant', 'bob')).toBe(1);
  });

  it('is rejected when it cannot be determined', async () => {
    const scenario = app.scenario();
    const document = 'mutation { byUser { execution } }';
    const response = await ask(scenario, document, { as: null });
    expect(codesIn(response)).toEqual({ byUser: 'idempotency_caller_unknown' });
    expect(response.errors![0]!.message).toContain('"caller.anonymous"');
    expect(scenario.executions).toBe(0);
  });

  it('runs unprotected or in a shared scope when unknown, as "caller.anonymous" says', async () => {
    const scenario = app.scenario();
    expect(await execution(scenario, 'unprotected', null)).toBe(1);
    expect(await execution(scenario, 'unprotected', null)).toBe(2);
    expect(await execution(scenario, 'shared', null)).toBe(3);
    expect(await execution(scenario, 'shared', null)).toBe(3);
    expect(await execution(scenario, 'shared', 'alice')).toBe(4);
  });

  it("has one key for all mutations with key.uniqueFor: 'principal'", async () => {
    const scenario = app.scenario();
    expect(await execution(scenario, 'overAllOperations', 'alice')).toBe(1);
    const other = await ask(scenario, 'mutation { field: overAllOperationsToo { execution } }');
    expect(codesIn(other)).toEqual({ field: 'idempotency_key_reused' });
  });
});

describe('the caller in a custom context', () => {
  it('is the user of that context', async () => {
    const app = await startGraphqlApp({
      store: memoryStore(),
      resolvers: [CallersResolver],
      guard: { canActivate: () => true },
      driver: {
        context: ({ req }: { req: { headers: Record<string, string> } }) => ({
          req,
          user: { sub: req.headers.authorization },
        }),
      },
    });
    try {
      const scenario = app.scenario();
      const document = 'mutation { byUser { execution } }';
      const asked = async (as: string) =>
        (await ask(scenario, document, { as })).data.byUser.execution as number;
      expect([await asked('carol'), await asked('dave'), await asked('carol')]).toEqual([1, 2, 1]);
    } finally {
      await app.close();
    }
  });
});
