import { pipeline, Readable } from 'node:stream';
import { pipeline as awaitedPipeline } from 'node:stream/promises';
import {
  Controller,
  Post,
  Res,
  StreamableFile,
  UseInterceptors,
  type CallHandler,
  type ExecutionContext,
} from '@nestjs/common';
import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals';
import {
  IdempotencyContext,
  IdempotencyEvents,
  Idempotent,
  StoreUnavailableError,
} from 'nestjs-idempotency';
import { IdempotencyEngine } from '../../../support/internals/core.js';
import { Around, givingUp } from '../../../support/http/around.js';
import { platforms } from '../../../support/http/combinations.js';
import { expectProblem, expectReplay } from '../../../support/http/expectations.js';
import { Gate } from '../../../support/waiting/gate.js';
import { onceSettled } from '../../../support/http/once-settled.js';
import { type ExpressResponse, type FastifyReply, takeRaw } from '../../../support/http/reply.js';
import { InScenario, Scenario, scenarioOf } from '../../../support/http/scenario.js';
import { startApp, type TestApp } from '../../../support/http/start-app.js';
import { heldReply, heldRequest, type FaultyStore } from '../../../support/stores/faulty-store.js';
import { slowStore } from '../../../support/stores/slow-store.js';
import { driveTimers } from '../../../support/clocks/driven-time.js';

type AnyReply = ExpressResponse | FastifyReply;

/** Longer than the library waits for a response after its client disconnected. */
const BEYOND_THE_GRACE_MS = 1_200;

/** An outer interceptor that makes the response's head unreadable where the scenario plans it. */
const BreakTheHead = () =>
  UseInterceptors({
    intercept: (context: ExecutionContext, next: CallHandler) => {
      const http = context.switchToHttp();
      if (scenarioOf(http.getRequest()).plan.includes('break the head')) {
        Object.assign(http.getResponse<AnyReply>(), {
          getHeaders: () => {
            throw new Error('planned: no head');
          },
        });
      }
      return next.handle();
    },
  });

@Controller()
class SlowlyStoredController {
  @Post('value')
  @Idempotent()
  async value(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('file')
  @Idempotent()
  async file(@InScenario() scenario: Scenario) {
    const execution = await scenario.run();
    return new StreamableFile(Readable.from([`execution ${execution}`]));
  }

  @Post('pipeline')
  @Idempotent()
  async pipeline(@InScenario() scenario: Scenario, @Res() reply: AnyReply) {
    const execution = await scenario.run();
    // Where the client has left, this throws on Node 24 and later.
    pipeline(Readable.from([`execution ${execution}`]), takeRaw(reply), () => undefined);
  }

  /** Fails if its client has left. */
  @Post('awaited-pipeline')
  @Idempotent()
  async awaitedPipeline(@InScenario() scenario: Scenario, @Res() reply: AnyReply) {
    const execution = await scenario.run();
    await awaitedPipeline(Readable.from([`execution ${execution}`]), takeRaw(reply));
  }

  @Post('callback')
  @Idempotent()
  callback(@InScenario() scenario: Scenario, @Res() reply: AnyReply) {
    const raw = takeRaw(reply);
    void scenario.run().then((execution) => {
      raw.statusCode = scenario.planned(execution) === 'fail' ? 500 : 201;
      raw.end(`execution ${execution}`);
    });
  }

  @Post('given-up-outside')
  @Idempotent()
  @Around(givingUp)
  async givenUpOutside(
    @InScenario() scenario: Scenario,
    @IdempotencyContext() { attempt, isTakeover }: IdempotencyContext,
  ) {
    return { execution: await scenario.run(), attempt, isTakeover };
  }

  @Post('unprotected-given-up-outside')
  @Idempotent({ storeErrors: { whenUnavailable: 'execute' } })
  @Around(givingUp)
  async unprotectedGivenUpOutside(
    @InScenario() scenario: Scenario,
    @IdempotencyContext() context: IdempotencyContext,
  ) {
    return this.givenUpOutside(scenario, context);
  }

  @Post('broken-head')
  @Idempotent()
  @BreakTheHead()
  async brokenHead(
    @InScenario() scenario: Scenario,
    @IdempotencyContext() context: IdempotencyContext,
  ) {
    return this.givenUpOutside(scenario, context);
  }
}

describe.each(platforms)('a slow store on %s', (platform) => {
  let store: FaultyStore;
  let app: TestApp;

  const start = async () => {
    store = slowStore();
    app = await startApp({
      platform,
      store,
      controllers: [SlowlyStoredController],
      options: { limits: { shutdownTimeoutMs: 1_000 } },
    });
  };
  beforeAll(async () => {
    // Not the engine's clock: it would outrun a busy machine, whose shutdowns then find attempts running.
    driveTimers(true);
    await start();
  });

  afterAll(async () => {
    await app.close();
    jest.useRealTimers();
  });

  describe.each([
    ['is on its way to the store', heldRequest],
    ['is executed but not confirmed', heldReply],
  ])('while begin %s', (_, held) => {
    it.each(['/value', '/file', '/pipeline', '/awaited-pipeline'])(
      'the client disconnects: %s runs once and is never taken over',
      async (path) => {
        const scenario = app.scenario();
        const gate = Gate.closed();
        store.next('begin', held(gate));
        const pending = scenario.start('POST', path);
        await scenario.arrived.reached(1);
        pending.abandon();
        await scenario.disconnected.reached(1);
        gate.open();
        await scenario.started.reached(1);
        const second = await onceSettled(() => scenario.post(path));
        if (path === '/value') expect(second).toMatchObject({ replayed: true, status: 201 });
        else expectProblem(second, 'response-not-kept');
        expect((await scenario.post(path)).text).toBe(second.text);
        expect(scenario.executions).toBe(1);
      },
    );

    it('an outer timeout responds: the handler is not called, and the key is free', async () => {
      const scenario = app.scenario();
      const gate = Gate.closed();
      scenario.timeout.close();
      store.next('begin', held(gate));
      const pending = scenario.start('POST', '/given-up-outside');
      await scenario.arrived.reached(1);
      scenario.timeout.open();
      expect((await pending.response).status).toBe(503);
      const released = store.sentOf('release').length;
      gate.open();
      const second = await onceSettled(() => scenario.post('/given-up-outside'));
      expect(second).toMatchObject({
        status: 201,
        replayed: false,
        json: { execution: 1, attempt: 2, isTakeover: false },
      });
      expect(store.sentOf('release')).toHaveLength(released + 1);
      expect(scenario.executions).toBe(1);
    });

    it('an outer timeout responds: a shutdown waits for begin, but not for a lease', async () => {
      const ownStore = slowStore();
      const ownApp = await startApp({
        platform,
        store: ownStore,
        controllers: [SlowlyStoredController],
        // Both exceed the test's own timeout.
        options: { limits: { shutdownTimeoutMs: 600_000 }, lease: { durationMs: 300_000 } },
      });
      const scenario = ownApp.scenario();
      const gate = Gate.closed();
      scenario.timeout.close();
      ownStore.next('begin', held(gate));
      const pending = scenario.start('POST', '/given-up-outside');
      await scenario.arrived.reached(1);
      scenario.timeout.open();
      await pending.response;
      const closed = ownApp.close();
      gate.open();
      await closed;
      expect(scenario.executions).toBe(0);
      expect(ownStore.closed).toBe(true);
    });
  });

  it('leaves no attempt when an outer timeout responds before the store fails', async () => {
    const scenario = app.scenario();
    const types: string[] = [];
    const events = app.nest.get(IdempotencyEvents, { strict: false });
    const leave = events.subscribe(({ type }) => types.push(type));
    const gate = Gate.closed();
    scenario.timeout.close();
    store.next('begin', async () => {
      await gate.pass();
      throw new StoreUnavailableError('planned: away');
    });
    const pending = scenario.start('POST', '/unprotected-given-up-outside');
    await scenario.arrived.reached(1);
    scenario.timeout.open();
    expect((await pending.response).status).toBe(503);
    gate.open();
    expect(await onceSettled(() => scenario.post('/unprotected-given-up-outside'))).toMatchObject({
      status: 201,
      replayed: false,
      json: { execution: 1, attempt: 1, isTakeover: false },
    });
    expect(scenario.executions).toBe(1);
    // What did not run did not run without protection.
    expect(types).toEqual(['store_unavailable', 'acquired', 'completed', 'ended']);
    leave();
    expect(await drained()).toBe(0);
  });

  it('frees the key and leaves no attempt when the response cannot be recorded', async () => {
    const scenario = app.scenario();
    scenario.plan = ['break the head'];
    expect((await scenario.post('/broken-head')).status).toBe(500);
    expect(scenario.executions).toBe(0);
    scenario.plan = [];
    expect(await scenario.post('/broken-head')).toMatchObject({
      status: 201,
      replayed: false,
      json: { execution: 1, attempt: 2, isTakeover: false },
    });
    expect(await drained()).toBe(0);
  });

  /** The attempts that a shutdown finds running after `limits.shutdownTimeoutMs`; restarts the application. */
  async function drained() {
    const left = await app.nest.get(IdempotencyEngine, { strict: false }).drain();
    await app.close();
    await start();
    return left;
  }

  describe('a native handler that responds from a callback after its client disconnected', () => {
    async function leaveDuring(...plan: string[]) {
      const scenario = app.scenario();
      scenario.plan = plan;
      scenario.gate.close();
      const pending = scenario.start('POST', '/callback');
      await scenario.started.reached(1);
      pending.abandon();
      await scenario.disconnected.reached(1);
      return scenario;
    }

    it('keeps its key until it responds, however long that takes', async () => {
      const scenario = await leaveDuring('succeed');
      await jest.advanceTimersByTimeAsync(BEYOND_THE_GRACE_MS);
      expectProblem(await scenario.post('/callback'), 'in-progress');
      scenario.gate.open();
      const second = await onceSettled(() => scenario.post('/callback'));
      expect(second).toMatchObject({ status: 201, replayed: true, text: 'execution 1' });
      expect(scenario.executions).toBe(1);
    });

    it('frees its key when it fails', async () => {
      const scenario = await leaveDuring('fail');
      scenario.gate.open();
      const second = await onceSettled(() => scenario.post('/callback'));
      expect(second).toMatchObject({ status: 201, replayed: false, text: 'execution 2' });
      expectReplay(await scenario.post('/callback'), second);
      expect(scenario.executions).toBe(2);
    });
  });
});
