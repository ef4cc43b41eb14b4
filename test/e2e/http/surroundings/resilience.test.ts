import { describe, expect, it } from '@jest/globals';
import {
  Controller,
  HttpException,
  Injectable,
  Post,
  type CallHandler,
  type NestInterceptor,
} from '@nestjs/common';
import { APP_INTERCEPTOR } from '@nestjs/core';
import { IdempotencyContext, Idempotent } from 'nestjs-idempotency';
import { retry } from 'rxjs';
import { combinations, useStores } from '../../../support/http/combinations.js';
import { expectProblem, expectReplay } from '../../../support/http/expectations.js';
import { onceSettled } from '../../../support/http/once-settled.js';
import { InScenario, type Scenario, scenarioOf } from '../../../support/http/scenario.js';
import { startApp } from '../../../support/http/start-app.js';
import { DrivenClock } from '../../../support/internals/testing.js';
import {
  Bulkhead,
  CircuitBreaker,
  Fallback,
  ResilienceModule,
  ResilienceService,
  ResilienceTimeoutError,
  Retry,
  Signal,
  Timeout,
} from '../../../support/nest/resilience.js';
import { useServer } from '../../../support/servers/use-server.js';
import { until } from '../../../support/waiting/until.js';

const MAX_EXECUTION_MS = 60_000;
/** Whether the last heartbeat was in time is the store's to say. */
const LOSS = /^(max_execution|expired)$/;

/** Fires when the test opens the scenario's timeout, once each time. */
const GivenUp = Timeout(async (context) => {
  const { timeout } = scenarioOf(context.switchToHttp().getRequest());
  await timeout.pass();
  timeout.close();
});

async function asPlanned(scenario: Scenario) {
  const execution = await scenario.run();
  if (scenario.planned(execution) === 'fail') throw new HttpException('planned', 500);
  return { execution };
}

/** Of an operation that another one looks at. */
let kept: IdempotencyContext | undefined;

@Controller()
class ShipmentsController {
  @Post('guarded')
  @Idempotent()
  @CircuitBreaker('carrier')
  guarded(@InScenario() scenario: Scenario) {
    return asPlanned(scenario);
  }

  @Post('exclusive')
  @Idempotent()
  @Bulkhead({ name: 'carrier', maxConcurrent: 1 })
  exclusive(@InScenario() scenario: Scenario) {
    return asPlanned(scenario);
  }

  @Post('retried')
  @Idempotent()
  @CircuitBreaker('retried')
  @Retry({ attempts: 3 })
  retried(@InScenario() scenario: Scenario) {
    return asPlanned(scenario);
  }

  @Post('replaced')
  @Idempotent()
  @Fallback(() => ({ queued: true }))
  replaced(@InScenario() scenario: Scenario) {
    return asPlanned(scenario);
  }

  @Post('timed')
  @Idempotent()
  @GivenUp
  timed(@InScenario() scenario: Scenario) {
    return asPlanned(scenario);
  }

  @Post('cancelled')
  @Idempotent({ lease: { maxExecution: MAX_EXECUTION_MS } })
  @GivenUp
  async cancelled(
    @InScenario() scenario: Scenario,
    @IdempotencyContext() context: IdempotencyContext,
    @Signal() theirs: AbortSignal,
  ) {
    const ours = context.signal;
    const note = (whose: string, { reason }: AbortSignal) =>
      scenario.notes.push({ whose, reason: reason instanceof Error ? reason.constructor : reason });
    ours.addEventListener('abort', () => note('ours', ours));
    theirs.addEventListener('abort', () => note('theirs', theirs));
    return { execution: await scenario.run(), aborted: [ours.aborted, theirs.aborted] };
  }

  @Post('plain')
  @Idempotent({ lease: { maxExecution: MAX_EXECUTION_MS } })
  async plain(@InScenario() scenario: Scenario, @Signal() signal: AbortSignal) {
    signal.addEventListener('abort', () => scenario.notes.push(signal.reason));
    return { execution: await scenario.run() };
  }

  @Post('kept')
  @Idempotent()
  async kept(@InScenario() scenario: Scenario, @IdempotencyContext() context: IdempotencyContext) {
    kept = context;
    return { execution: await scenario.run() };
  }

  @Post('foreign')
  @Idempotent()
  @GivenUp
  async foreign(@InScenario() scenario: Scenario, @Signal() own: AbortSignal) {
    scenario.notes.push(own, kept?.signal);
    return { execution: await scenario.run() };
  }

  @Post('retried-signals')
  @Idempotent()
  @Retry({ attempts: 2 })
  @GivenUp
  async retriedSignals(
    @InScenario() scenario: Scenario,
    @IdempotencyContext() { signal }: IdempotencyContext,
  ) {
    scenario.notes.push(signal.aborted);
    return { execution: await scenario.run() };
  }
}

/** Subscribes once more after an error. */
@Injectable()
class Retrying implements NestInterceptor {
  intercept(_: unknown, next: CallHandler) {
    return next.handle().pipe(retry(1));
  }
}

const stores = useStores();

describe.each(combinations)('Nest’s resilience on $platform with $store', ({ platform, store }) => {
  const start = (isOutermost: boolean, clock = new DrivenClock()) =>
    startApp({
      platform,
      store: stores.fresh(store),
      controllers: [ShipmentsController],
      imports: [ResilienceModule],
      isOutermost,
      clock,
    });

  describe.each([
    { place: 'outermost', isOutermost: true },
    { place: 'on the route', isOutermost: false },
  ])('around or inside of the interceptor $place', ({ isOutermost }) => {
    const clock = new DrivenClock();
    const app = useServer(() => start(isOutermost, clock));
    const service = () => app.nest.get(ResilienceService);

    it('runs the attempts of one request under one key, and stores the last outcome', async () => {
      const scenario = app.scenario();
      scenario.plan = ['fail', 'fail', 'succeed'];
      const { calls, failures } = service().circuitBreaker('retried');
      const first = await scenario.post('/retried');
      expect(first).toMatchObject({ status: 201, json: { execution: 3 } });
      expectReplay(await scenario.post('/retried'), first);
      expect(scenario.executions).toBe(3);
      // First requests count, each attempt by itself; a replay is no failure.
      expect(service().circuitBreaker('retried').failures - failures).toBe(2);
      expect(service().circuitBreaker('retried').calls - calls).toBe(isOutermost ? 3 : 4);
    });

    it('stores what a fallback returns', async () => {
      const scenario = app.scenario();
      scenario.plan = ['fail'];
      const first = await scenario.post('/replaced');
      expect(first).toMatchObject({ status: 201, json: { queued: true } });
      expectReplay(await scenario.post('/replaced'), first);
      expect(scenario.executions).toBe(1);
    });

    it('frees the key where the breaker rejects the first request', async () => {
      const scenario = app.scenario();
      const breaker = service().circuitBreaker('carrier');
      breaker.isOpen = true;
      const rejected = await scenario.post('/guarded');
      breaker.isOpen = false;
      expect(rejected).toMatchObject({ status: 503, replayed: false });
      expect(rejected.json).toMatchObject({ code: 'CIRCUIT_OPEN' });
      expect(rejected.header('retry-after')).toBe('30');
      const second = await scenario.post('/guarded');
      expect(second).toMatchObject({ status: 201, replayed: false, json: { execution: 1 } });
      expect(second.header('retry-after')).toBeUndefined();
    });

    it('has one effect where a timeout gives up and the handler goes on', async () => {
      const scenario = app.scenario();
      scenario.gate.close();
      scenario.timeout.close();
      const pending = scenario.start('POST', '/timed');
      await scenario.started.reached(1);
      scenario.timeout.open();
      expect(await pending.response).toMatchObject({ status: 504, replayed: false });
      expectProblem(await scenario.post('/timed'), 'in-progress');
      scenario.gate.open();
      expectProblem(await onceSettled(() => scenario.post('/timed')), 'response-not-kept');
      expect(scenario.executions).toBe(1);
    });

    it('aborts both signals when the attempt is given up', async () => {
      const scenario = app.scenario();
      scenario.gate.close();
      scenario.timeout.close();
      const pending = scenario.start('POST', '/cancelled');
      await scenario.started.reached(1);
      scenario.timeout.open();
      await pending.response;
      await until(() => scenario.notes.length === 2);
      scenario.gate.open();
      const reason = ResilienceTimeoutError;
      expect(scenario.notes).toContainEqual({ whose: 'ours', reason });
      expect(scenario.notes).toContainEqual({ whose: 'theirs', reason });
    });

    it('aborts both signals when the operation loses its lease', async () => {
      const scenario = app.scenario();
      scenario.gate.close();
      scenario.timeout.close();
      const pending = scenario.start('POST', '/cancelled');
      await scenario.started.reached(1);
      await clock.advance(MAX_EXECUTION_MS);
      await until(() => scenario.notes.length === 2);
      scenario.gate.open();
      await pending.response;
      const reason = expect.stringMatching(LOSS);
      expect(scenario.notes).toContainEqual({ whose: 'ours', reason });
      expect(scenario.notes).toContainEqual({ whose: 'theirs', reason });
    });

    it('gives @Signal() the operation’s own where no attempt has one', async () => {
      const scenario = app.scenario();
      scenario.gate.close();
      const pending = scenario.start('POST', '/plain');
      await scenario.started.reached(1);
      await clock.advance(MAX_EXECUTION_MS);
      await until(() => scenario.notes.length === 1);
      scenario.gate.open();
      await pending.response;
      expect(scenario.notes).toEqual([expect.stringMatching(LOSS)]);
    });

    it('links no signal of another operation', async () => {
      const other = app.scenario();
      other.gate.close();
      const running = other.start('POST', '/kept');
      await other.started.reached(1);
      const scenario = app.scenario();
      scenario.timeout.close();
      scenario.gate.close();
      const pending = scenario.start('POST', '/foreign');
      await scenario.started.reached(1);
      scenario.timeout.open();
      await pending.response;
      expect(scenario.notes.map(({ aborted }) => aborted as unknown)).toEqual([true, false]);
      for (const { gate } of [scenario, other]) gate.open();
      expect(await running.response).toMatchObject({ status: 201 });
    });

    it('gives each attempt of a retry a signal of its own', async () => {
      const scenario = app.scenario();
      scenario.gate.close();
      scenario.timeout.close();
      const pending = scenario.start('POST', '/retried-signals');
      await scenario.started.reached(1);
      scenario.timeout.open();
      await scenario.started.reached(2);
      scenario.gate.open();
      expect(await pending.response).toMatchObject({ status: 201 });
      expect(scenario.notes).toEqual([false, false]);
    });
  });

  describe('inside of the outermost interceptor', () => {
    const app = useServer(() => start(true));

    it('does not see a replay: it is sent under an open breaker', async () => {
      const scenario = app.scenario();
      const breaker = app.nest.get(ResilienceService).circuitBreaker('carrier');
      const first = await scenario.post('/guarded');
      expect(breaker.calls).toBe(1);
      breaker.isOpen = true;
      expectReplay(await scenario.post('/guarded'), first);
      // Others are rejected.
      expect(await app.scenario().post('/guarded')).toMatchObject({ status: 503 });
      breaker.isOpen = false;
      expect({ calls: breaker.calls, rejected: breaker.rejected }).toEqual({
        calls: 1,
        rejected: 1,
      });
      expect(scenario.executions).toBe(1);
    });

    it('takes no slot for a duplicate or a replay', async () => {
      const slots = app.nest.get(ResilienceService).bulkhead('carrier');
      const done = app.scenario();
      const first = await done.post('/exclusive');
      const running = app.scenario();
      running.gate.close();
      const pending = running.start('POST', '/exclusive');
      await running.started.reached(1);
      expectProblem(await running.post('/exclusive'), 'in-progress');
      expectReplay(await done.post('/exclusive'), first);
      const { admitted, rejected } = slots;
      expect({ admitted, rejected }).toEqual({ admitted: 2, rejected: 0 });
      const other = await app.scenario().post('/exclusive');
      expect(other).toMatchObject({ status: 503, json: { code: 'BULKHEAD_FULL' } });
      running.gate.open();
      expect(await pending.response).toMatchObject({ status: 201 });
      expect([done.executions, running.executions]).toEqual([1, 1]);
    });
  });

  describe('an interceptor of the root module', () => {
    const app = useServer(() =>
      startApp({
        platform,
        store: stores.fresh(store),
        controllers: [ShipmentsController],
        providers: [{ provide: APP_INTERCEPTOR, useClass: Retrying }],
        imports: [ResilienceModule],
        isOutermost: true,
      }),
    );

    it('is outside, and may subscribe again under the same key', async () => {
      const scenario = app.scenario();
      scenario.plan = ['fail', 'succeed'];
      const first = await scenario.post('/guarded');
      expect(first).toMatchObject({ status: 201, json: { execution: 2 } });
      expectReplay(await scenario.post('/guarded'), first);
      expect(scenario.executions).toBe(2);
    });
  });

  describe('outside of the interceptor on the route', () => {
    const app = useServer(() => start(false));

    it('rejects a replay under an open breaker, which is sent when it has closed', async () => {
      const scenario = app.scenario();
      const first = await scenario.post('/guarded');
      const breaker = app.nest.get(ResilienceService).circuitBreaker('carrier');
      breaker.isOpen = true;
      expect(await scenario.post('/guarded')).toMatchObject({ status: 503, replayed: false });
      breaker.isOpen = false;
      expectReplay(await scenario.post('/guarded'), first);
      expect(scenario.executions).toBe(1);
    });
  });
});
