import {
  Catch,
  ClassSerializerInterceptor,
  Controller,
  Post,
  type ArgumentsHost,
  type CallHandler,
  type ExceptionFilter,
  type ExecutionContext,
  type INestApplication,
  type NestInterceptor,
  HttpException,
} from '@nestjs/common';
import { HttpAdapterHost, Reflector } from '@nestjs/core';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { currentIdempotencyContext, IdempotencyContext, Idempotent } from 'nestjs-idempotency';
import { map, tap, type Observable } from 'rxjs';
import {
  ResponsesController,
  DivergingResponsesController,
  ExpressResponsesController,
  FastifyResponsesController,
} from '../../../support/http/responses.controller.js';
import { Around } from '../../../support/http/around.js';
import { combinations, platforms, useStores } from '../../../support/http/combinations.js';
import { expectProblem, expectReplay } from '../../../support/http/expectations.js';
import { routesOf } from '../../../support/http/routes-of.js';
import { InScenario, Scenario } from '../../../support/http/scenario.js';
import { startApp, type TestApp } from '../../../support/http/start-app.js';
import { isTestAll } from '../../../support/jest/test-all.js';
import { useServer } from '../../../support/servers/use-server.js';

let exchange = 0;

/** Wraps every response and numbers it: no two envelopes are equal. */
class EnvelopeInterceptor implements NestInterceptor {
  intercept(_: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(map((data: unknown) => ({ data, envelope: (exchange += 1) })));
  }
}

/** Throws on null and undefined, as such interceptors do. */
class OnlyIdInterceptor implements NestInterceptor {
  intercept(_: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(map((data: { id: unknown }) => ({ only: data.id })));
  }
}

@Catch()
class EverythingFilter implements ExceptionFilter {
  constructor(private readonly adapterHost: HttpAdapterHost) {}

  catch(error: unknown, host: ArgumentsHost): void {
    const status = error instanceof HttpException ? error.getStatus() : 500;
    const body = { caught: status, exchange: (exchange += 1) };
    this.adapterHost.httpAdapter.reply(host.switchToHttp().getResponse(), body, status);
  }
}

const inner: Around = (next, scenario) =>
  next.handle().pipe(
    tap(() => scenario.notes.push('inner')),
    map((data: object) => ({ ...data, inner: true })),
  );

const outer: Around = (next, scenario) =>
  next.handle().pipe(tap(() => scenario.notes.push('outer')));

/** Decorators apply from the bottom: an interceptor below `@Idempotent()` is outside of it. */
@Controller()
class InterceptedController {
  @Post('intercepted-outside')
  @Idempotent()
  @Around(outer)
  async outside(@InScenario() scenario: Scenario) {
    return { id: await scenario.run() };
  }

  @Post('intercepted-inside')
  @Around(inner)
  @Idempotent()
  async inside(@InScenario() scenario: Scenario) {
    return { id: await scenario.run() };
  }

  @Post('context')
  @Idempotent({ operation: 'payments.create' })
  async context(
    @InScenario() scenario: Scenario,
    @IdempotencyContext() context: IdempotencyContext,
  ) {
    const execution = await scenario.run();
    scenario.notes.push(context, currentIdempotencyContext());
    if (scenario.planned(execution) === 'fail') throw new Error('planned');
    return { execution };
  }

  @Post('sampled')
  @Idempotent({
    enabled: (context: ExecutionContext) =>
      context.switchToHttp().getRequest<{ headers: Record<string, string> }>().headers[
        'x-sampled'
      ] === 'yes',
  })
  async sampled(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }
}

const serializing = (nest: INestApplication) =>
  nest.useGlobalInterceptors(new ClassSerializerInterceptor(nest.get(Reflector)));

const everything = (nest: INestApplication) => {
  nest.useGlobalInterceptors(
    new EnvelopeInterceptor(),
    new ClassSerializerInterceptor(nest.get(Reflector)),
  );
  nest.useGlobalFilters(new EverythingFilter(nest.get(HttpAdapterHost)));
};

const pipelines: readonly (readonly [string, (nest: INestApplication) => void])[] = [
  ['nothing else', () => undefined],
  ['a global ClassSerializerInterceptor', serializing],
  ['a global envelope', (nest) => nest.useGlobalInterceptors(new EnvelopeInterceptor())],
  ['a global map(d => d.id)', (nest) => nest.useGlobalInterceptors(new OnlyIdInterceptor())],
  [
    'a global catch-all filter',
    (nest) => nest.useGlobalFilters(new EverythingFilter(nest.get(HttpAdapterHost))),
  ],
  ['all of these', everything],
];

const stores = useStores();

/** The platforms alternate in each pipeline: every route runs in every pipeline and on both platforms. */
describe.each(combinations)('$platform with $store,', ({ platform, store }) => {
  const native = platform === 'express' ? ExpressResponsesController : FastifyResponsesController;
  const routes = [ResponsesController, DivergingResponsesController].flatMap(routesOf);
  const platformOrder = platforms.indexOf(platform) + Number(isTestAll);

  describe.each(pipelines)('and %s', (name, configure) => {
    const round = pipelines.findIndex(([other]) => other === name) + platformOrder;
    const routesInOrder = routes.filter((_, index) => (index + round) % 2 === 0);

    const app = useServer(() =>
      startApp({
        platform,
        store: stores.fresh(store),
        controllers: [ResponsesController, native, DivergingResponsesController],
        configure,
      }),
    );

    it.each([...routesInOrder, ...routesOf(native)])(
      'replays the first response of %s byte for byte [P02, P21]',
      async (path) => {
        const scenario = app.scenario();
        const first = await scenario.post(path);
        // Zero where an interceptor dropped the handler's stream.
        const effects = scenario.executions;
        expectReplay(await scenario.post(path), first);
        expectReplay(await scenario.post(path), first);
        expect(scenario.executions).toBe(effects);
      },
    );
  });

  describe('single cases', () => {
    let app: TestApp;
    let plainApp: TestApp;

    beforeAll(async () => {
      const controllers = [
        ResponsesController,
        native,
        DivergingResponsesController,
        InterceptedController,
      ];
      const start = (configure: (nest: INestApplication) => void) =>
        startApp({ platform, store: stores.fresh(store), controllers, configure });
      app = await start(serializing);
      plainApp = await start(() => undefined);
    });

    afterAll(async () => {
      await app.close();
      await plainApp.close();
    });

    it('a member that @Exclude() hides is hidden in the replay too [P02]', async () => {
      const scenario = app.scenario();
      const responses = [
        await scenario.post('/hidden-member'),
        await scenario.post('/hidden-member'),
      ];
      for (const { json } of responses)
        expect(json).toEqual({ id: 'account-1', label: 'ACCOUNT-1' });
      expect(responses[1]!.replayed).toBe(true);
    });

    it('a serializer that throws after a success causes no second execution, and its 500 is replayed', async () => {
      const scenario = app.scenario();
      const first = await scenario.post('/unserializable');
      expect(first.status).toBe(500);
      expectReplay(await scenario.post('/unserializable'), first);
      expect(scenario.executions).toBe(1);
    });

    it('the first value of a dynamic @Header is replayed', async () => {
      const scenario = plainApp.scenario();
      const first = await scenario.post('/dynamic-header');
      const replay = await scenario.post('/dynamic-header');
      expect(first.header('x-tag')).toMatch(/^"tag-\d+"$/);
      expect(replay.header('x-tag')).toBe(first.header('x-tag'));
      expect(replay.header('etag')).toBe(first.header('etag'));
    });

    it('the response of a handler that throws after it was sent is kept', async () => {
      const scenario = plainApp.scenario();
      const first = await scenario.post('/native-send-then-throw');
      expect(first).toMatchObject({ status: 201, replayed: false, json: { id: 1 } });
      expectReplay(await scenario.post('/native-send-then-throw'), first);
      expect(scenario.executions).toBe(1);
    });

    it('a decorated method of a decorated class runs once, with the method’s options', async () => {
      const scenario = plainApp.scenario();
      const [first, replay] = [
        await scenario.post('/decorated-twice'),
        await scenario.post('/decorated-twice'),
      ];
      expectReplay(replay, first);
      expect(first.json).toEqual({ id: 1 });
    });

    it.each([
      ['/object', 201],
      ['/accepted', 202],
      ['/no-content', 204],
      ['/redirect', 303],
      ['/dynamic-redirect', 307],
      ['/passthrough', 207],
      ['/native-send', 202],
      ['/native-nothing', 204],
      ['/thrown-409', 409],
      ['/thrown-404-observable', 404],
      ['/circular', 500],
      ['/bigint', 500],
    ])('%s responds with %d, and so does the replay', async (path, status) => {
      const scenario = plainApp.scenario();
      const statuses = [(await scenario.post(path)).status, (await scenario.post(path)).status];
      expect(statuses).toEqual([status, status]);
      expect(scenario.executions).toBe(1);
    });

    it('the response as an inner interceptor changed it is stored', async () => {
      const scenario = plainApp.scenario();
      const first = await scenario.post('/intercepted-inside');
      expect(first.json).toEqual({ id: 1, inner: true });
      expectReplay(await scenario.post('/intercepted-inside'), first);
      expect(scenario.notes).toEqual(['inner']);
    });

    it('outer interceptors also run on replays', async () => {
      const scenario = plainApp.scenario();
      const first = await scenario.post('/intercepted-outside');
      expectReplay(await scenario.post('/intercepted-outside'), first);
      expect(scenario.notes).toEqual(['outer', 'outer']);
    });

    it('the handler gets key, scope, operation and attempt as a parameter and from currentIdempotencyContext()', async () => {
      const scenario = plainApp.scenario();
      scenario.plan = ['fail', 'succeed'];
      expect((await scenario.post('/context')).status).toBe(500);
      expect((await scenario.post('/context')).status).toBe(201);
      const [first, firstFromBelow, second] = scenario.notes;
      const common = {
        key: scenario.key,
        scope: ['alice'],
        operation: 'payments.create',
        isTakeover: false,
      };
      expect(first).toMatchObject({ ...common, attempt: 1 });
      expect(firstFromBelow).toBe(first);
      expect(second).toMatchObject({ ...common, attempt: 2 });
      expect(second.fencingToken).toBeGreaterThan(first.fencingToken);
      expect(first.signal).toBeInstanceOf(AbortSignal);
      expect(second.signal.aborted).toBe(false);
    });

    it('enabled switches the protection off for single requests', async () => {
      const scenario = plainApp.scenario();
      for (const execution of [1, 2]) {
        expect(await scenario.post('/sampled')).toMatchObject({
          replayed: false,
          json: { execution },
        });
      }
      const headers = [['X-Sampled', 'yes']] as const;
      const first = await scenario.post('/sampled', { headers });
      expectReplay(await scenario.post('/sampled', { headers }), first);
      expectProblem(await scenario.post('/sampled', { headers, key: null }), 'key-missing');
    });
  });
});
