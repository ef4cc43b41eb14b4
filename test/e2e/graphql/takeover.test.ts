import { Injectable } from '@nestjs/common';
import { Args, Int, Mutation, Resolver } from '@nestjs/graphql';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import {
  currentIdempotencyContext,
  Idempotent,
  IdempotencyReconciler,
  type Recover,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import type { Scenario } from '../../support/http/scenario.js';
import type { TestApp } from '../../support/http/start-app.js';
import { ask, codesIn, startGraphqlApp } from './support/graphql-app.js';
import { InScenario } from './support/in-scenario.js';
import { Charge } from './support/payments.resolver.js';

const LEASE_MS = 60_000;
const AFTER_MS = 300_000;

/** What the payment provider knows. */
@Injectable()
class Provider {
  readonly paid = new Map<string, number>();
}

const look: Recover = ({ key }, services) => {
  const amount = services.get(Provider).paid.get(key);
  return amount === undefined ? 'run' : { value: { execution: 0, amount } };
};

/** Its first execution is held at the gate; whoever comes later passes. */
async function holdTheFirst(scenario: Scenario, amount: number): Promise<Charge> {
  const execution = scenario.started.add();
  scenario.notes.push({ ...currentIdempotencyContext() });
  if (execution === 1) await scenario.gate.pass();
  return { execution, amount };
}

const amountArgument = { type: () => Int };

@Resolver()
class TakeoverResolver {
  @Mutation(() => Charge, { nullable: true })
  @Idempotent({ leaseMs: LEASE_MS })
  runsAgain(@InScenario() scenario: Scenario, @Args('amount', amountArgument) amount: number) {
    return holdTheFirst(scenario, amount);
  }

  @Mutation(() => Charge, { nullable: true })
  @Idempotent({ leaseMs: LEASE_MS, onTakeover: 'reject' })
  neverRepeats(@InScenario() scenario: Scenario, @Args('amount', amountArgument) amount: number) {
    return holdTheFirst(scenario, amount);
  }

  @Mutation(() => Charge, { nullable: true })
  @Idempotent({ leaseMs: LEASE_MS, onTakeover: look })
  looksFirst(@InScenario() scenario: Scenario, @Args('amount', amountArgument) amount: number) {
    return holdTheFirst(scenario, amount);
  }
}

describe('a mutation whose owner was lost', () => {
  let now = Date.UTC(2026, 0, 1);
  let app: TestApp;
  /** Another process, whose attempts the ones of `app` take over. */
  let owner: TestApp;

  beforeAll(async () => {
    const options = {
      store: memoryStore({ now: () => now }),
      resolvers: [TakeoverResolver, Provider],
    };
    [app, owner] = [await startGraphqlApp(options), await startGraphqlApp(options)];
  });
  afterAll(() => Promise.all([app.close(), owner.close()]));

  const mutation = ({ key }: Scenario, field: string) =>
    `mutation { ${field}(amount: 5) @idempotent(key: "${key}") { execution amount } }`;

  async function leftBehind(field: string) {
    const scenario = app.scenario();
    scenario.gate.close();
    const document = mutation(scenario, field);
    const first = ask(scenario, document, { port: owner.port });
    await scenario.started.reached(1);
    return { scenario, document, first };
  }

  it('runs again once its lease is over, knows it, and the late owner tells the same', async () => {
    const { scenario, document, first } = await leftBehind('runsAgain');
    now += LEASE_MS;
    const second = await ask(scenario, document);
    expect(second.data).toEqual({ runsAgain: { execution: 2, amount: 5 } });
    expect(scenario.notes[1]).toMatchObject({ attempt: 2, isTakeover: true });
    scenario.gate.open();
    expect(await first).toEqual(second);
  });

  it('does not run again where "onTakeover" forbids it', async () => {
    const { scenario, document } = await leftBehind('neverRepeats');
    now += LEASE_MS;
    expect(codesIn(await ask(scenario, document))).toEqual({
      neverRepeats: 'idempotency_outcome_unknown',
    });
    expect(scenario.executions).toBe(1);
  });

  it('has the outcome that "onTakeover" finds', async () => {
    const { scenario, document } = await leftBehind('looksFirst');
    app.nest.get(Provider).paid.set(scenario.key, 5);
    now += LEASE_MS;
    const second = await ask(scenario, document);
    expect(second.data).toEqual({ looksFirst: { execution: 0, amount: 5 } });
    expect(await ask(scenario, document)).toEqual(second);
    expect(scenario.executions).toBe(1);
  });

  it('has the outcome that the reconciler finds when no client comes back', async () => {
    const { scenario, document } = await leftBehind('looksFirst');
    app.nest.get(Provider).paid.set(scenario.key, 5);
    now += LEASE_MS + AFTER_MS;
    const reconciler = app.nest.get(IdempotencyReconciler, { strict: false });
    expect(await reconciler.reconcile()).toMatchObject({ completed: 1 });
    const second = await ask(scenario, document);
    expect(second.data).toEqual({ looksFirst: { execution: 0, amount: 5 } });
    expect(scenario.executions).toBe(1);
  });
});
