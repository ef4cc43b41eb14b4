import {
  Body,
  ConflictException,
  Controller,
  Injectable,
  InternalServerErrorException,
  NotFoundException,
  Post,
  Res,
} from '@nestjs/common';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import {
  Idempotent,
  IdempotencyEvents,
  IdempotencyMeter,
  IdempotencyReconciler,
  type IdempotencyContext,
  type IdempotencyEvent,
  type IdempotencyStore,
  type Recovery,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import type { Services } from '../../../support/internals/core.js';
import { platforms, type Platform } from '../../../support/http/combinations.js';
import { expectProblem, expectReplay } from '../../../support/http/expectations.js';
import { InScenario, Scenario } from '../../../support/http/scenario.js';
import { FaultyStore, unavailable } from '../../../support/stores/faulty-store.js';
import { startApp, type StartAppOptions, type TestApp } from '../../../support/http/start-app.js';

const LEASE_MS = 60_000;
const DAY_MS = 86_400_000;
/** The reconciler leaves younger attempts to the client's own retry. */
const AFTER_MS = 300_000;

/** The business data: what an abandoned attempt has left behind, by key. */
@Injectable()
class Payments {
  readonly found = new Map<string, () => Recovery>();
  readonly asked: IdempotencyContext[] = [];

  recover(context: IdempotencyContext): Recovery {
    this.asked.push({ ...context });
    return this.found.get(context.key)?.() ?? 'run';
  }
}

const recover = (context: IdempotencyContext, services: Services) =>
  Promise.resolve(services.get(Payments).recover(context));

@Controller()
class RecoveryController {
  @Post('payments')
  @Idempotent({ lease: { durationMs: LEASE_MS, onTakeover: recover } })
  async pay(@InScenario() scenario: Scenario, @Body() body: object) {
    const execution = scenario.started.add();
    // The first execution never returns by itself.
    if (execution === 1) await scenario.gate.pass();
    return { execution, body };
  }

  @Post('imported')
  @Idempotent({ lease: { durationMs: LEASE_MS, onTakeover: recover, recoverOn: 'always' } })
  async imported(@InScenario() scenario: Scenario) {
    const execution = await scenario.run();
    if (scenario.planned(execution) === 'fail') throw new InternalServerErrorException();
    return { execution };
  }

  @Post('careless')
  @Idempotent({ lease: { durationMs: LEASE_MS, onTakeover: () => 'perhaps' as never } })
  careless(@InScenario() scenario: Scenario) {
    return this.pay(scenario, {});
  }

  @Post('never-repeats')
  @Idempotent({ lease: { durationMs: LEASE_MS, onTakeover: 'reject' } })
  neverRepeats(@InScenario() scenario: Scenario) {
    return this.pay(scenario, {});
  }

  @Post('failures-shorter')
  @Idempotent({ outcome: { retentionMs: ({ state }) => (state === 'failed' ? 1_000 : DAY_MS) } })
  async failuresShorter(@InScenario() scenario: Scenario) {
    const execution = await scenario.run();
    if (scenario.planned(execution) === 'fail') throw new NotFoundException({ execution });
    return { execution };
  }
}

function startedOn(
  platform: Platform,
  store: IdempotencyStore,
  options: StartAppOptions['options'] = {},
) {
  return startApp({
    platform,
    store,
    options,
    controllers: [RecoveryController],
    providers: [Payments],
  });
}

describe.each(platforms)('onTakeover on %s, by the clock of the store,', (platform) => {
  let now = Date.UTC(2026, 0, 1);
  let app: TestApp;
  /** Another process, whose attempts `app` takes over. */
  let owner: TestApp;
  let payments: Payments;
  const events: IdempotencyEvent[] = [];

  beforeAll(async () => {
    const store = memoryStore({ now: () => now });
    [app, owner] = [await startedOn(platform, store), await startedOn(platform, store)];
    payments = app.nest.get(Payments);
    app.nest.get(IdempotencyEvents, { strict: false }).subscribe((event) => events.push(event));
  });
  afterAll(() => Promise.all([app.close(), owner.close()]));

  /** Sends a request whose attempt sends no heartbeat for `ms`. */
  async function leaveBehind(path: string, ms: number) {
    const scenario = app.scenario();
    scenario.gate.close();
    const late = scenario.start('POST', path, { json: { amount: 7 }, port: owner.port });
    late.response.catch(() => undefined);
    await scenario.started.reached(1);
    now += ms;
    return { scenario, late };
  }

  const outliveTheLease = async (path: string) => (await leaveBehind(path, LEASE_MS)).scenario;

  const again = (scenario: Scenario, path = '/payments') =>
    scenario.post(path, { json: { amount: 7 } });

  it('supplies the response as if the handler had returned it, and the handler does not run [P37]', async () => {
    const scenario = await outliveTheLease('/payments');
    payments.found.set(scenario.key, () => ({ value: { execution: 1, found: true } }));
    events.length = 0;
    const recovered = await again(scenario);
    expect(recovered).toMatchObject({ status: 201, replayed: false, json: { found: true } });
    expectReplay(await again(scenario), recovered);
    expect(scenario.executions).toBe(1);
    expect(events.map(({ type }) => type)).toEqual([
      ...['takeover', 'recovered', 'completed', 'ended', 'replayed'],
    ]);
  });

  it('receives key, scope, attempt, fencing token and signal', async () => {
    const scenario = await outliveTheLease('/payments');
    await again(scenario);
    expect(payments.asked.at(-1)).toMatchObject({
      operation: 'RecoveryController.pay',
      key: scenario.key,
      scope: [expect.anything()],
      attempt: 2,
      isTakeover: true,
      fencingToken: expect.any(Number),
      signal: expect.any(AbortSignal),
    });
  });

  it("C60a after the lease expires the key is free, and the handler runs where onTakeover returns 'run' [P37]", async () => {
    const scenario = await outliveTheLease('/payments');
    const asked = payments.asked.length;
    const second = await again(scenario);
    expect(second).toMatchObject({ status: 201, json: { execution: 2, body: { amount: 7 } } });
    expectReplay(await again(scenario), second);
    expect(payments.asked).toHaveLength(asked + 1);
  });

  it('can return the value undefined, which becomes an empty response', async () => {
    const scenario = await outliveTheLease('/payments');
    payments.found.set(scenario.key, () => ({ value: undefined }));
    const recovered = await again(scenario);
    expect(recovered).toMatchObject({ status: 201, replayed: false });
    expect(recovered.body).toHaveLength(0);
    expectReplay(await again(scenario), recovered);
    expect(scenario.executions).toBe(1);
  });

  it.each([
    ['any error', () => new Error('the database is away'), 500],
    ['an error that would be kept of a handler', () => new NotFoundException(), 404],
  ])(
    'reports %s to the client, keeps nothing, and is called again on the next retry',
    async (_, error, status) => {
      const scenario = await outliveTheLease('/payments');
      const asked = payments.asked.length;
      payments.found.set(scenario.key, () => {
        throw error();
      });
      for (const times of [1, 2]) {
        const response = await again(scenario);
        expect(response).toMatchObject({ status, replayed: false });
        expect(payments.asked).toHaveLength(asked + times);
      }
      payments.found.set(scenario.key, () => ({ value: { found: true } }));
      expect(await again(scenario)).toMatchObject({ status: 201, json: { found: true } });
      expect(scenario.executions).toBe(1);
    },
  );

  it('C60b the late owner overwrites nothing, and its client gets the stored outcome [P38]', async () => {
    const { scenario, late } = await leaveBehind('/payments', LEASE_MS);
    const recovered = await again(scenario);
    expect(recovered).toMatchObject({ status: 201, json: { execution: 2 } });
    scenario.gate.open();
    expect((await late.response).json).toEqual(recovered.json);
    expectReplay(await again(scenario), recovered);
    expect(scenario.executions).toBe(2);
  });

  it("C60a with onTakeover: 'reject' nothing runs again, and the late owner can still complete", async () => {
    const { scenario, late } = await leaveBehind('/never-repeats', LEASE_MS);
    expectProblem(await again(scenario, '/never-repeats'), 'outcome-unknown');
    scenario.gate.open();
    const first = await late.response;
    expect(first).toMatchObject({ status: 201, replayed: false, json: { execution: 1 } });
    expectReplay(await again(scenario, '/never-repeats'), first);
  });

  it('C80 outcome.retentionMs can depend on the outcome', async () => {
    const scenario = app.scenario();
    scenario.plan = ['fail', 'succeed'];
    const failure = await scenario.post('/failures-shorter');
    expect(failure.status).toBe(404);
    now += 999;
    expectReplay(await scenario.post('/failures-shorter'), failure);
    now += 1;
    const success = await scenario.post('/failures-shorter');
    expect(success).toMatchObject({ status: 201, replayed: false, json: { execution: 2 } });
    now += 1_000;
    expectReplay(await scenario.post('/failures-shorter'), success);
  });

  it('fails the request and frees the key where it returns an unknown value', async () => {
    const scenario = await outliveTheLease('/careless');
    expect((await again(scenario, '/careless')).status).toBe(500);
    expect((await again(scenario, '/careless')).status).toBe(500);
    expect(scenario.executions).toBe(1);
  });

  it('stops the start on a handler that responds through @Res()', async () => {
    @Controller()
    class NativeController {
      @Post('native')
      @Idempotent({ lease: { onTakeover: recover } })
      native(@Res() response: { send(): void }) {
        response.send();
      }
    }
    const start = startApp({ platform, store: memoryStore(), controllers: [NativeController] });
    await expect(start).rejects.toThrow(/NativeController\.native uses @Res\(\).*onTakeover/);
  });

  describe("with lease.recoverOn: 'always'", () => {
    const asked = ({ key }: Scenario) =>
      payments.asked.filter((context) => context.key === key).map(attemptOf);
    const attemptOf = ({ attempt, isTakeover }: IdempotencyContext) => ({ attempt, isTakeover });
    const first = { attempt: 1, isTakeover: false };

    function requestsBy(result: 'executed' | 'recovered') {
      const { operations } = app.nest.get(IdempotencyMeter, { strict: false }).read();
      return operations.get('RecoveryController.imported')?.requests.http?.[result] ?? 0;
    }

    it('is called before the first attempt, whose response is what it finds', async () => {
      const scenario = app.scenario();
      payments.found.set(scenario.key, () => ({ value: { paid: 'before' } }));
      const before = { recovered: requestsBy('recovered'), executed: requestsBy('executed') };
      events.length = 0;
      const response = await scenario.post('/imported');
      expect(response).toMatchObject({ status: 201, replayed: false, json: { paid: 'before' } });
      expectReplay(await scenario.post('/imported'), response);
      expect(scenario.executions).toBe(0);
      expect(asked(scenario)).toEqual([first]);
      expect(events.map(({ type }) => type)).toEqual([
        ...['acquired', 'recovered', 'completed', 'ended', 'replayed'],
      ]);
      expect(events.find(({ type }) => type === 'ended')).toMatchObject({ how: 'recovered' });
      expect(requestsBy('recovered')).toBe(before.recovered + 1);
      expect(requestsBy('executed')).toBe(before.executed);
    });

    it("is called once where it returns 'run', and the handler runs", async () => {
      const scenario = app.scenario();
      const before = requestsBy('executed');
      const response = await scenario.post('/imported');
      expect(response).toMatchObject({ status: 201, replayed: false, json: { execution: 1 } });
      expectReplay(await scenario.post('/imported'), response);
      expect(asked(scenario)).toEqual([first]);
      expect(requestsBy('executed')).toBe(before + 1);
    });

    it('is called again after a failure of the handler, and after its own', async () => {
      const scenario = app.scenario();
      scenario.plan = ['fail'];
      expect((await scenario.post('/imported')).status).toBe(500);
      payments.found.set(scenario.key, () => {
        throw new ConflictException('still in progress there');
      });
      const rejected = await scenario.post('/imported');
      expect(rejected).toMatchObject({ status: 409, replayed: false });
      payments.found.set(scenario.key, () => ({ value: 'done there' }));
      expect(await scenario.post('/imported')).toMatchObject({ status: 201, text: 'done there' });
      expect(scenario.executions).toBe(1);
      expect(asked(scenario)).toEqual([
        first,
        { attempt: 2, isTakeover: false },
        { attempt: 3, isTakeover: false },
      ]);
    });

    it('is called at a takeover, too, and not for a duplicate', async () => {
      const { scenario, late } = await leaveBehind('/imported', 0);
      expectProblem(await scenario.post('/imported', { json: { amount: 7 } }), 'in-progress');
      now += LEASE_MS;
      payments.found.set(scenario.key, () => ({ value: { paid: 'once' } }));
      expect((await again(scenario, '/imported')).json).toEqual({ paid: 'once' });
      expect(asked(scenario)).toEqual([{ attempt: 2, isTakeover: true }]);
      scenario.gate.open();
      expect((await late.response).json).toEqual({ paid: 'once' });
      expect(scenario.executions).toBe(1);
    });

    it('is not called before a first attempt without the option', async () => {
      const scenario = app.scenario();
      payments.found.set(scenario.key, () => ({ value: 'not asked for' }));
      expect((await again(scenario)).json).toMatchObject({ execution: 1 });
      expect(asked(scenario)).toEqual([]);
    });

    it('is called before an attempt without a record, while the store is down', async () => {
      const store = new FaultyStore(memoryStore());
      store.always(unavailable, 'begin');
      const storeErrors = { whenUnavailable: 'execute' } as const;
      const alone = await startedOn(platform, store, { storeErrors });
      const scenario = alone.scenario();
      alone.nest.get(Payments).found.set(scenario.key, () => ({ value: { paid: 'before' } }));
      const response = await scenario.post('/imported');
      await alone.close();
      expect(response).toMatchObject({ status: 201, json: { paid: 'before' } });
      expect(scenario.executions).toBe(0);
    });

    it.each(['run', 'reject'] as const)('stops the start with onTakeover: "%s"', async (words) => {
      @Controller()
      class WithoutFunction {
        @Post('without')
        @Idempotent({ lease: { onTakeover: words, recoverOn: 'always' } })
        without() {
          return 'never';
        }
      }
      const start = startApp({ platform, store: memoryStore(), controllers: [WithoutFunction] });
      await expect(start).rejects.toThrow(/WithoutFunction.*"lease.onTakeover" must be a function/);
    });
  });

  describe('after the reconciler', () => {
    const secret = { value: { secret: 'of the table' } };

    async function reconciled(found: Recovery) {
      const left = await leaveBehind('/payments', LEASE_MS + AFTER_MS);
      payments.found.set(left.scenario.key, () => found);
      const reconciler = app.nest.get(IdempotencyReconciler, { strict: false });
      return { ...left, report: await reconciler.reconcile() };
    }

    it('does not run again what was found, and no response is invented', async () => {
      const { scenario, report } = await reconciled(secret);
      expect(report).toMatchObject({ completed: 1 });
      const response = await again(scenario);
      expectProblem(response, 'response-not-kept');
      expect(response.text).not.toContain('of the table');
      expect(scenario.executions).toBe(1);
    });

    it('lets the handler run at once where nothing was found', async () => {
      const { scenario, report } = await reconciled('run');
      expect(report).toMatchObject({ released: 1 });
      const response = await again(scenario);
      expect(response).toMatchObject({ status: 201, replayed: false, json: { execution: 2 } });
    });

    it('gives the late owner’s client the same response as every other', async () => {
      const { scenario, late, report } = await reconciled(secret);
      expect(report).toMatchObject({ completed: 1 });
      scenario.gate.open();
      expectProblem(await late.response, 'response-not-kept');
      expectProblem(await again(scenario), 'response-not-kept');
    });
  });
});
