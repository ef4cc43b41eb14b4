import { pipeline, Readable } from 'node:stream';
import { Controller, HttpException, Post, Res, StreamableFile } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import type { Begin, IdempotencyRecord } from 'nestjs-idempotency/store';
import { defer, of, retry } from 'rxjs';
import { until } from '../../../support/waiting/until.js';
import { FaultyStore, heldReply, heldRequest } from '../../../support/stores/faulty-store.js';
import { Around, givingUp } from '../../../support/http/around.js';
import { platforms, useStores } from '../../../support/http/combinations.js';
import { expectProblem, expectReplay } from '../../../support/http/expectations.js';
import { Gate } from '../../../support/waiting/gate.js';
import { type ExpressResponse, type FastifyReply, takeRaw } from '../../../support/http/reply.js';
import { InScenario, Scenario } from '../../../support/http/scenario.js';
import { startApp, type TestApp } from '../../../support/http/start-app.js';
import { driveTimers } from '../../../support/clocks/driven-time.js';

type AnyReply = ExpressResponse | FastifyReply;

/** Longer than the library waits for a response after its client disconnected. */
const BEYOND_THE_GRACE_MS = 1_200;
const MAX_STORED_BYTES = 1_000;

@Controller()
@Idempotent({ outcome: { maxBytes: MAX_STORED_BYTES } })
class SettledController {
  @Post('stream')
  async stream(@InScenario() scenario: Scenario) {
    const execution = await scenario.run();
    return defer(() => {
      scenario.notes.push('subscribed');
      return of({ execution });
    });
  }

  @Post('value')
  async value(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('file')
  async file(@InScenario() scenario: Scenario) {
    return new StreamableFile(Readable.from([`execution ${await scenario.run()}`]));
  }

  @Post('large')
  async large(@InScenario() scenario: Scenario) {
    await scenario.run();
    return new StreamableFile(
      Readable.from([Buffer.alloc(MAX_STORED_BYTES + 1), Buffer.alloc(1_000)]),
    );
  }

  /** Returns before its response's body is ready. */
  @Post('body')
  body(@InScenario() scenario: Scenario) {
    return new StreamableFile(
      Readable.from(
        (async function* () {
          yield `execution ${await scenario.run()}`;
        })(),
      ),
    );
  }

  @Post('native')
  async native(@InScenario() scenario: Scenario, @Res() reply: AnyReply) {
    const execution = await scenario.run();
    reply.status(201).send({ execution });
  }

  @Post('declined')
  async declined(@InScenario() scenario: Scenario) {
    throw new HttpException(`declined ${await scenario.run()}`, 402);
  }

  @Post('failed')
  async failed(@InScenario() scenario: Scenario) {
    throw new HttpException(`failed ${await scenario.run()}`, 503);
  }

  /** After the client disconnects, nothing of its pipeline is written and the response is never ended. */
  @Post('pipeline')
  async pipeline(@InScenario() scenario: Scenario, @Res() reply: AnyReply) {
    const raw = takeRaw(reply);
    raw.write('execution ');
    const execution = await scenario.run();
    pipeline(Readable.from([String(execution)]), raw, () => undefined);
  }

  /** Fails when half of its response is written. */
  @Post('half-written')
  async halfWritten(@InScenario() scenario: Scenario, @Res() reply: AnyReply) {
    takeRaw(reply).write('execution ');
    throw new Error(`planned ${await scenario.run()}`);
  }

  /** Fails in its first execution, when it has written nothing. */
  @Post('native-retried-outside')
  @Around((next) => next.handle().pipe(retry(1)))
  async nativeRetriedOutside(@InScenario() scenario: Scenario, @Res() reply: AnyReply) {
    const raw = takeRaw(reply);
    const execution = await scenario.run();
    if (execution === 1) throw new Error('planned');
    raw.end(`execution ${execution}`);
  }

  /** Responds with a failure, and continues. */
  @Post('answers-first')
  async respondsFirst(@InScenario() scenario: Scenario, @Res() reply: AnyReply) {
    reply.status(503).send({ failed: true });
    await scenario.run();
  }

  /** Fails at the timeout's gate, and waits at the scenario's in its second execution. */
  @Post('retried-outside')
  @Around((next) => next.handle().pipe(retry(1)))
  async retriedOutside(@InScenario() scenario: Scenario) {
    const execution = scenario.started.add();
    await (execution === 1 ? scenario.timeout : scenario.gate).pass();
    if (execution === 1) throw new Error('planned');
    return { execution };
  }

  @Post('given-up-outside')
  @Around(givingUp)
  givenUpOutside(@InScenario() scenario: Scenario) {
    return scenario.response();
  }
}

/** A decorator above `@Idempotent()` is inside of it. */
@Controller()
class GivenUpInsideController {
  @Post('given-up-inside')
  @Around(givingUp)
  @Idempotent()
  givenUpInside(@InScenario() scenario: Scenario) {
    return scenario.response();
  }
}

const stores = useStores();

describe.each(platforms)('the record of a request under %s', (platform) => {
  let store: FaultyStore;
  let app: TestApp;
  let sentBefore: number;

  beforeAll(async () => {
    // Not the engine's clock: the timers of the Redis client must not outrun a busy machine either.
    driveTimers(true);
    store = new FaultyStore(stores.fresh('redis'));
    app = await startApp({
      platform,
      store,
      controllers: [SettledController, GivenUpInsideController],
      options: { outcome: ({ status = 0 }) => status < 500 },
    });
  });
  afterEach(() => {
    store.heal();
  });
  afterAll(async () => {
    await app.close();
    jest.useRealTimers();
  });

  /** Starts a request whose handler waits at the scenario's gate. */
  async function startHeld(scenario: Scenario, path: string) {
    scenario.gate.close();
    sentBefore = store.sent.length;
    const pending = scenario.start('POST', path);
    await scenario.started.reached(1);
    return pending;
  }

  const sentNow = (step: 'complete' | 'release') =>
    store.sent.slice(sentBefore).filter((sent) => sent.step === step);

  /** The current record of the request that {@link startHeld} started. */
  function record(): Promise<IdempotencyRecord | undefined> {
    const { recordKey } = store.sent[sentBefore]!.command as Begin;
    return store.inspect(recordKey, { timeoutMs: 5_000 });
  }

  const state = async () => (await record())?.state;

  /** Waits for another client's exchange, in which bytes that were sent too early would arrive. */
  async function aRoundTrip() {
    expect((await app.scenario().post('/value')).status).toBe(201);
  }

  describe.each([
    ['is on its way', heldRequest],
    ['is executed but not confirmed', heldReply],
  ])('whose last command %s', (_, held) => {
    it.each(['/value', '/file', '/large', '/native', '/declined'])(
      'holds back every byte of the response of %s [P03, P20]',
      async (path) => {
        const scenario = app.scenario();
        const gate = Gate.closed();
        const pending = await startHeld(scenario, path);
        store.next('complete', held(gate));
        scenario.gate.open();
        await until(() => sentNow('complete').length === 1);
        await aRoundTrip();
        expect(pending.receivedBytes).toBe(0);
        gate.open();
        const { status } = await pending.response;
        expect(status).toBe(path === '/declined' ? 402 : 201);
        expect(await state()).toBe(status === 402 ? 'failed' : 'completed');
      },
    );

    it('holds back a response that is not kept, so that an immediate retry finds the key free', async () => {
      const scenario = app.scenario();
      const gate = Gate.closed();
      const pending = await startHeld(scenario, '/failed');
      store.next('release', held(gate));
      scenario.gate.open();
      await until(() => sentNow('release').length === 1);
      await aRoundTrip();
      expect(pending.receivedBytes).toBe(0);
      gate.open();
      expect((await pending.response).status).toBe(503);
      expect(await state()).toBe('released');
    });
  });

  describe('whose client disconnects while the handler runs', () => {
    it.each(['/value', '/stream', '/file', '/pipeline'])(
      'is in progress until the handler of %s ends, however long that takes, and then completed',
      async (path) => {
        const scenario = app.scenario();
        const pending = await startHeld(scenario, path);
        pending.abandon();
        await scenario.disconnected.reached(1);
        await jest.advanceTimersByTimeAsync(BEYOND_THE_GRACE_MS);
        expect(await state()).toBe('in_progress');
        scenario.gate.open();
        await until(async () => (await state()) !== 'in_progress');
        expect(await state()).toBe('completed');
        expect(scenario.notes).toEqual(path === '/stream' ? ['subscribed'] : []);
        expect(sentNow('complete')).toHaveLength(1);
        const second = await scenario.post(path);
        if (path === '/pipeline') expectProblem(second, 'response-not-kept');
        expect(scenario.executions).toBe(1);
      },
    );

    it('is completed when the handler had returned and its body was still being produced', async () => {
      const scenario = app.scenario();
      const pending = await startHeld(scenario, '/body');
      pending.abandon();
      await scenario.disconnected.reached(1);
      scenario.gate.open();
      await until(async () => (await state()) !== 'in_progress');
      expect(await state()).toBe('completed');
    });

    it('is released once the handler has failed', async () => {
      const scenario = app.scenario();
      const pending = await startHeld(scenario, '/failed');
      pending.abandon();
      await scenario.disconnected.reached(1);
      scenario.gate.open();
      await until(async () => (await state()) !== 'in_progress');
      expect(await state()).toBe('released');
    });
  });

  it.each([
    ['an interceptor inside gave up', '/given-up-inside', 1],
    ['an interceptor outside called the handler again', '/retried-outside', 2],
  ])(
    'whose client disconnected before %s is in progress until the handler ends',
    async (_, path, executions) => {
      const scenario = app.scenario();
      scenario.timeout.close();
      const pending = await startHeld(scenario, path);
      pending.abandon();
      await scenario.disconnected.reached(1);
      scenario.timeout.open();
      await scenario.started.reached(executions);
      await aRoundTrip();
      await jest.advanceTimersByTimeAsync(BEYOND_THE_GRACE_MS);
      await aRoundTrip();
      expect(await state()).toBe('in_progress');
      scenario.gate.open();
      await until(async () => (await state()) !== 'in_progress');
      expect(await state()).toBe('completed');
    },
  );

  it('whose handler fails when half of the response is written is completed without it', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/half-written');
    expect(first).toMatchObject({ status: 201, text: 'execution ' });
    expectProblem(await scenario.post('/half-written'), 'response-not-kept');
    expect(scenario.executions).toBe(1);
  });

  it('whose native handler succeeds when it is called again is completed with its response', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/native-retried-outside');
    expect(first).toMatchObject({ status: 201, replayed: false, text: 'execution 2' });
    expectReplay(await scenario.post('/native-retried-outside'), first);
    expect(scenario.executions).toBe(2);
  });

  it.each(['/given-up-outside', '/given-up-inside', '/answers-first'])(
    'whose client got 503 is in progress while the handler of %s runs',
    async (path) => {
      const scenario = app.scenario();
      scenario.timeout.close();
      const pending = await startHeld(scenario, path);
      scenario.timeout.open();
      expect((await pending.response).status).toBe(503);
      await aRoundTrip();
      expect(await state()).toBe('in_progress');
      expectProblem(await scenario.post(path), 'in-progress');
      expect(scenario.executions).toBe(1);
      scenario.gate.open();
      await until(async () => (await state()) !== 'in_progress');
      // A native handler's response is its outcome, and a failure is not kept.
      expect(await state()).toBe(path === '/answers-first' ? 'released' : 'completed');
    },
  );
});
