import { Injectable } from '@nestjs/common';
import { Args, Int, Mutation, Resolver } from '@nestjs/graphql';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Idempotent, IdempotencyReconciler, type Recover } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { until } from '../../support/waiting/until.js';
import { FaultyStore } from '../../support/stores/faulty-store.js';
import { useStores } from '../../support/http/combinations.js';
import type { Scenario } from '../../support/http/scenario.js';
import type { TestApp } from '../../support/http/start-app.js';
import { useServer } from '../../support/servers/use-server.js';
import { ask, codesIn, startGraphqlApp } from './support/graphql-app.js';
import { InScenario } from './support/in-scenario.js';
import { Charge, charged, PaymentsResolver } from './support/payments.resolver.js';

const stores = useStores();

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

describe.each(['memory', 'redis'] as const)(
  'duplicates of a mutation, with records in %s',
  (kind) => {
    const app = useServer(() =>
      startGraphqlApp({
        store: stores.fresh(kind),
        resolvers: [PaymentsResolver],
        // Tolerate a busy machine.
        options: { storeErrors: { commandTimeoutMs: 5_000 } },
      }),
    );

    const charge = 'mutation { charge(amount: 5) { execution amount } }';

    it('execute once when twenty arrive concurrently, and later ones get the stored value [P04]', async () => {
      const scenario = app.scenario();
      scenario.gate.close();
      const responses = Array.from({ length: 20 }, () => ask(scenario, charge));
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
      expect(await ask(scenario, charge)).toEqual(done[0]);
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
  },
);

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

  @Mutation(() => Charge, { nullable: true })
  @Idempotent({ lease: { onTakeover: lookUp, recoverOn: 'always' } })
  alwaysLooksUp(@InScenario() scenario: Scenario) {
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

  it("gets what it finds before a first attempt, with recoverOn: 'always'", async () => {
    const scenario = app.scenario();
    app.nest.get(Provider).paid.set(`alwaysLooksUp ${scenario.key}`, 5);
    const document = 'mutation { alwaysLooksUp { execution amount } }';
    const first = await ask(scenario, document);
    expect(first.data).toEqual({ alwaysLooksUp: { execution: 0, amount: 5 } });
    expect(await ask(scenario, document)).toEqual(first);
    expect(scenario.executions).toBe(0);
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
