import { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import {
  type CallHandler,
  Controller,
  type ExecutionContext,
  HttpException,
  InternalServerErrorException,
  type NestInterceptor,
  Post,
  StreamableFile,
} from '@nestjs/common';
import { IdempotencyEvents, Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { defer, from, merge, mergeMap, type Observable, take, throwError } from 'rxjs';
import { combinations, platforms, useStores } from '../../../support/http/combinations.js';
import { expectProblem, expectReplay } from '../../../support/http/expectations.js';
import { onceSettled } from '../../../support/http/once-settled.js';
import { InScenario, Scenario, scenarioOf } from '../../../support/http/scenario.js';
import { startApp, type StartAppOptions, type TestApp } from '../../../support/http/start-app.js';
import { useServer } from '../../../support/servers/use-server.js';
import { Gate } from '../../../support/waiting/gate.js';
import { Tally } from '../../../support/waiting/tally.js';
import { until } from '../../../support/waiting/until.js';

const stores = useStores();

/** A timeout interceptor for requests that ask for it. The scenario stands in for the timer. */
class TimeoutInterceptor implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const request = context.switchToHttp().getRequest<{ headers: Record<string, string> }>();
    const status = request.headers['x-timeout-status'];
    if (status === undefined) return next.handle();
    const timeout = from(scenarioOf(request).timeout.pass()).pipe(
      mergeMap(() => throwError(() => new HttpException('too slow', Number(status)))),
    );
    return merge(next.handle(), timeout).pipe(take(1));
  }
}

@Controller()
class ConcurrencyController {
  @Post('things')
  @Idempotent()
  async create(@InScenario() scenario: Scenario) {
    const execution = await scenario.run();
    if (scenario.planned(execution) === 'fail') throw new InternalServerErrorException();
    return { execution };
  }

  @Post('waiting')
  @Idempotent({ duplicates: 'wait' })
  waiting(@InScenario() scenario: Scenario) {
    return this.create(scenario);
  }

  @Post('observable')
  @Idempotent()
  observable(@InScenario() scenario: Scenario) {
    return defer(async () => ({ execution: await scenario.run() }));
  }

  @Post('stream')
  @Idempotent()
  stream(@InScenario() scenario: Scenario) {
    return new StreamableFile(
      Readable.from(
        (async function* () {
          yield 'execution ';
          yield String(await scenario.run());
        })(),
      ),
    );
  }

  @Post('endless-stream')
  @Idempotent()
  async endlessStream(@InScenario() scenario: Scenario) {
    await scenario.run();
    return new StreamableFile(
      Readable.from(
        (function* () {
          for (;;) yield Buffer.alloc(65_536, 'x');
        })(),
      ),
    );
  }

  @Post('timed-out-observable')
  @Idempotent()
  timedOutObservable(@InScenario() scenario: Scenario) {
    return defer(() => this.create(scenario));
  }
}

describe.each(combinations)('concurrency on $platform with $store', ({ platform, store }) => {
  const started = (rest: Pick<StartAppOptions, 'options' | 'configure'> = {}) =>
    useServer(() => {
      const controllers = [ConcurrencyController];
      return startApp({ platform, store: stores.fresh(store), controllers, ...rest });
    });
  const app = started({
    configure: (nest) => nest.useGlobalInterceptors(new TimeoutInterceptor()),
  });
  const crowdedApp = started({ options: { limits: { maxWaiters: 1 } } });

  /** Starts a request and returns once its handler waits at the scenario's gate. */
  async function startHeld(scenario: Scenario, path: string, headers: [string, string][] = []) {
    scenario.gate.close();
    const pending = scenario.start('POST', path, { headers });
    await scenario.started.reached(1);
    return pending;
  }

  /** Expects that a retry gets 409 while the one execution still waits at the gate. */
  async function expectLocked(scenario: Scenario, path: string) {
    const retry = scenario.start('POST', path);
    await Promise.race([retry.response, scenario.started.reached(2)]);
    expect(scenario.executions).toBe(1);
    expectProblem(await retry.response, 'in-progress');
  }

  it('C55 a client that sends Prefer: wait=0 gets 409 at once', async () => {
    const scenario = app.scenario();
    const pending = await startHeld(scenario, '/waiting');
    const duplicate = await scenario.post('/waiting', { headers: [['Prefer', 'wait=0']] });
    expectProblem(duplicate, 'in-progress');
    scenario.gate.open();
    expectReplay(await scenario.post('/waiting'), await pending.response);
  });

  it('C55 a client that disconnects while it waits frees its place, and nothing runs for it', async () => {
    const scenario = crowdedApp.scenario();
    const pending = await startHeld(scenario, '/waiting');
    const waiting = scenario.start('POST', '/waiting');
    await scenario.arrived.reached(2);
    await crowdedApp.scenario().post('/things');
    let hasLeft = false;
    crowdedApp.nest.get(IdempotencyEvents).subscribe(({ type }) => {
      hasLeft ||= type === 'waited';
    });
    waiting.abandon();
    // A client whose store command is pending keeps its place until the reply arrives.
    await until(() => hasLeft);
    const next = scenario.start('POST', '/waiting');
    await scenario.arrived.reached(3);
    await crowdedApp.scenario().post('/things');
    expect(next.responded).toBe(false);
    scenario.gate.open();
    expectReplay(await next.response, await pending.response);
    expect(scenario.executions).toBe(1);
  });

  it('C55 at most limits.maxWaiters duplicates wait, the next gets 409', async () => {
    const scenario = crowdedApp.scenario();
    const pending = await startHeld(scenario, '/waiting');
    const duplicates = [scenario.start('POST', '/waiting'), scenario.start('POST', '/waiting')];
    const rejected = await Promise.race(duplicates.map(({ response }) => response));
    expectProblem(rejected, 'in-progress');
    scenario.gate.open();
    const responses = await Promise.all(duplicates.map(({ response }) => response));
    expectReplay(
      responses.find((response) => response !== rejected)!,
      await pending.response,
    );
  });

  it('C55 a duplicate that waited for a released attempt runs the operation', async () => {
    const scenario = app.scenario();
    scenario.plan = ['fail', 'succeed'];
    const pending = await startHeld(scenario, '/waiting');
    const duplicate = scenario.start('POST', '/waiting');
    await scenario.arrived.reached(2);
    await app.scenario().post('/things');
    scenario.gate.open();
    expect((await pending.response).status).toBe(500);
    expect(await duplicate.response).toMatchObject({
      status: 201,
      replayed: false,
      json: { execution: 2 },
    });
    expectReplay(await scenario.post('/waiting'), await duplicate.response);
    expect(scenario.executions).toBe(2);
  });

  it.each(['/observable', '/stream'])(
    'C57 a client that disconnects from %s and retries has no second effect',
    async (path) => {
      const scenario = app.scenario();
      const pending = await startHeld(scenario, path);
      pending.abandon();
      await scenario.disconnected.reached(1);
      expect((await scenario.post(path)).status).toBe(409);
      scenario.gate.open();
      const found = await onceSettled(() => scenario.post(path));
      if (found.replayed) expect(found.text).toContain('1');
      else expectProblem(found, 'response-not-kept');
      expect(scenario.executions).toBe(1);
    },
  );

  it('C57 a client that disconnects during a streamed response and retries has no second effect', async () => {
    const scenario = app.scenario();
    const pending = scenario.start('POST', '/endless-stream');
    await pending.firstBytes();
    pending.abandon();
    await scenario.disconnected.reached(1);
    expectProblem(await onceSettled(() => scenario.post('/endless-stream')), 'response-not-kept');
    expect(scenario.executions).toBe(1);
  });

  // For timeouts on the route: attempts.test.ts, and test/e2e/decorators/packages.test.ts.
  describe.each([
    ['a promise', '/things'],
    ['an Observable', '/timed-out-observable'],
  ])('a global timeout interceptor around %s', (_, path) => {
    it.each([503, 408])(
      'C60c responds with %d, the key stays locked, and a success is not repeated [P36]',
      async (status) => {
        const scenario = app.scenario();
        scenario.timeout.close();
        const pending = await startHeld(scenario, path, [['X-Timeout-Status', String(status)]]);
        scenario.timeout.open();
        expect(await pending.response).toMatchObject({ status, replayed: false });
        await expectLocked(scenario, path);
        scenario.gate.open();
        expectProblem(await onceSettled(() => scenario.post(path)), 'response-not-kept');
        expect(scenario.executions).toBe(1);
      },
    );

    it('C60c responds with 503, and a handler that fails afterwards frees the key', async () => {
      const scenario = app.scenario();
      scenario.plan = ['fail', 'succeed'];
      scenario.timeout.close();
      const pending = await startHeld(scenario, path, [['X-Timeout-Status', '503']]);
      scenario.timeout.open();
      expect((await pending.response).status).toBe(503);
      await expectLocked(scenario, path);
      scenario.gate.open();
      const second = await onceSettled(() => scenario.post(path));
      expect(second).toMatchObject({ status: 201, replayed: false, json: { execution: 2 } });
      expectReplay(await scenario.post(path), second);
    });
  });
});

describe.each(platforms)('waiting duplicates with different contents on %s', (platform) => {
  /** Counts the replies to begin; the gate holds the repeated begins of waiting duplicates. */
  const begun = new Tally();
  const asking = new Gate();
  let app: TestApp;

  beforeAll(async () => {
    const store = memoryStore();
    const begin = store.begin.bind(store);
    const known = new Set<string>();
    store.begin = async (command) => {
      if (known.has(command.token)) await asking.pass();
      known.add(command.token);
      const reply = await begin(command);
      begun.add();
      return reply;
    };
    app = await startApp({ platform, store, controllers: [ConcurrencyController] });
  });
  afterAll(() => {
    asking.open();
    return app.close();
  });

  it('C55 duplicates that wait get the outcome of their own content only', async () => {
    const scenario = app.scenario();
    const post = (content: string) => scenario.start('POST', '/waiting', { json: { content } });
    /** Sends a request whose attempt fails, and a duplicate that waits for it. */
    const failedWhileOneWaits = async (content: string, execution: number) => {
      const before = begun.count;
      scenario.gate.close();
      const failing = post(content);
      await scenario.started.reached(execution);
      const waiting = post(content);
      await begun.reached(before + 2);
      // Once this one is done, the duplicate waits.
      await app.scenario().post('/things', { key: `another of ${content}` });
      scenario.gate.open();
      expect((await failing.response).status).toBe(500);
      return waiting;
    };
    scenario.plan = ['fail', 'fail'];
    asking.close();
    const waitingForB = await failedWhileOneWaits('B', 1);
    const waitingForA = await failedWhileOneWaits('A', 2);
    const completed = await post('B').response;
    expect(completed).toMatchObject({ status: 201, json: { execution: 3 } });
    asking.open();
    expectReplay(await waitingForB.response, completed);
    expectProblem(await waitingForA.response, 'key-reused');
    expect(scenario.executions).toBe(3);
  });
});

describe.each(combinations)('the shutdown on $platform with $store', ({ platform, store }) => {
  it('waits for the running handler and rejects new requests', async () => {
    const app = await startApp({
      platform,
      store: stores.fresh(store),
      controllers: [ConcurrencyController],
    });
    const running = app.scenario();
    running.gate.close();
    const pending = running.start('POST', '/things');
    await running.started.reached(1);

    const closed = app.nest.close();
    let late = app.scenario();
    let rejection = await late.post('/things');
    while (rejection.status === 201) {
      late = app.scenario();
      rejection = await late.post('/things');
    }
    expectProblem(rejection, 'shutting-down');
    expect(late.executions).toBe(0);

    running.gate.open();
    expect(await pending.response).toMatchObject({ status: 201, json: { execution: 1 } });
    await closed;
  });
});
