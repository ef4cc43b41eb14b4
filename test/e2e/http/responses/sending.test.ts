import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import {
  type ArgumentsHost,
  Catch,
  Controller,
  Header,
  HttpException,
  type INestApplication,
  Param,
  Post,
  Redirect,
  Render,
  Res,
  type Type,
} from '@nestjs/common';
import { BaseExceptionFilter } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { type NestFastifyApplication, RouteSchema } from '@nestjs/platform-fastify';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { Around, givingUp } from '../../../support/http/around.js';
import { type Platform, platforms, useStores } from '../../../support/http/combinations.js';
import { expectProblem, expectReplay } from '../../../support/http/expectations.js';
import { onceSettled } from '../../../support/http/once-settled.js';
import {
  type ExpressResponse,
  type FastifyReply,
  peekRaw,
  type Reply,
  takeRaw,
} from '../../../support/http/reply.js';
import {
  after,
  controllerOf,
  native,
  respond,
  routesOf,
  withReply,
} from '../../../support/http/routes-of.js';
import { InScenario, Scenario } from '../../../support/http/scenario.js';
import { formsOf, PARTIAL, sendingController } from '../../../support/http/sent-by-handlers.js';
import { startApp, type TestApp } from '../../../support/http/start-app.js';
import type { RawResponse } from '../../../support/http/wire/raw-response.js';
import { useServer } from '../../../support/servers/use-server.js';
import { slowStore } from '../../../support/stores/slow-store.js';

type AnyReply = ExpressResponse | FastifyReply;

/** Larger than the buffer of a `PassThrough`, so that writers must wait for drain. */
const LARGE = 'y'.repeat(20_000);

/** Calls `listener` before the head is written, as the package on-headers does for sessions. */
function beforeTheHead(raw: ServerResponse, listener: () => void): void {
  const writeHead = raw.writeHead.bind(raw) as (...args: unknown[]) => ServerResponse;
  let isFirst = true;
  raw.writeHead = (...args: unknown[]) => {
    if (isFirst) {
      isFirst = false;
      listener();
    }
    return writeHead(...args);
  };
}

/** Sends everything through its own stream, whose `drain` writers wait for, as compression does. */
function throughOwnStream(raw: ServerResponse): void {
  const through = new PassThrough();
  const [on, write, end] = [raw.on.bind(raw), raw.write.bind(raw), raw.end.bind(raw)];
  const own = (event: string, listener: (...args: any[]) => void) => {
    if (event === 'drain') through.on(event, listener);
    else on(event, listener);
    return raw;
  };
  Object.assign(raw, {
    on: own,
    write: (chunk: string | Buffer) => through.write(chunk),
    end: (chunk?: string | Buffer) => {
      if (chunk !== undefined) through.write(chunk);
      through.end();
      return raw;
    },
  });
  through.on('data', (chunk: Buffer) => {
    if (!write(chunk)) through.pause();
  });
  on('drain', () => through.resume());
  through.on('end', () => end());
}

const wanted = (request: { headers: OutgoingHttpHeaders }) =>
  String(request.headers['x-middleware']);

function withMiddleware(nest: INestApplication): void {
  nest.use(
    (request: { headers: OutgoingHttpHeaders }, raw: ServerResponse, next: () => void): void => {
      switch (wanted(request)) {
        case 'throws':
          beforeTheHead(raw, () => {
            throw new Error('a listener to the head throws');
          });
          break;
        case 'links':
          raw.setHeader('Link', ['</middleware>; rel=a']);
          break;
        case 'streams':
          throughOwnStream(raw);
      }
      next();
    },
  );
}

const middleware = (name: string) => ({ headers: [['X-Middleware', name]] }) as const;

const REASONS: Record<string, string> = {
  'beyond-latin-1': 'refusé ✗',
  'with-a-line-break': 'two\r\nlines',
};

/** Ends the response, and notes what that throws in the scenario. */
function endNatively(scenario: Scenario, raw: ServerResponse, body: unknown): void {
  try {
    raw.end(body);
  } catch (error) {
    scenario.notes.push(error);
    // The framework responds to exceptions with its own reason.
    raw.statusMessage = '';
    throw error;
  }
}

@Controller()
class SendingController {
  @Post('reason/:which')
  @Idempotent()
  async reason(
    @InScenario() scenario: Scenario,
    @Res({ passthrough: true }) reply: AnyReply,
    @Param('which') which: string,
  ) {
    const execution = await scenario.run();
    peekRaw(reply).statusMessage = REASONS[which]!;
    return { execution };
  }

  @Post('status/:status')
  @Idempotent()
  async status(
    @InScenario() scenario: Scenario,
    @Res({ passthrough: true }) reply: AnyReply,
    @Param('status') status: string,
  ) {
    const execution = await scenario.run();
    peekRaw(reply).statusCode = Number(status);
    return { execution };
  }

  @Post('native-reason/:which')
  @Idempotent()
  async nativeReason(
    @InScenario() scenario: Scenario,
    @Res() reply: AnyReply,
    @Param('which') which: string,
  ) {
    await scenario.run();
    const raw = peekRaw(reply);
    raw.statusMessage = REASONS[which]!;
    endNatively(scenario, raw, 'sent');
  }

  @Post('native-status/:status')
  @Idempotent()
  async nativeStatus(
    @InScenario() scenario: Scenario,
    @Res() reply: AnyReply,
    @Param('status') status: string,
  ) {
    await scenario.run();
    const raw = peekRaw(reply);
    raw.statusCode = Number(status);
    endNatively(scenario, raw, 'sent');
  }

  @Post('native-object')
  @Idempotent()
  async nativeObject(@InScenario() scenario: Scenario, @Res() reply: AnyReply) {
    await scenario.run();
    endNatively(scenario, peekRaw(reply), {});
  }

  @Post('value')
  @Idempotent()
  async value(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('odd-headers')
  @Idempotent()
  async oddHeaders(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: AnyReply) {
    const execution = await scenario.run();
    const odd = { 'X-Total': 10n, 'X-Day': new Date(0), 'X-Count': 7 };
    for (const [name, value] of Object.entries(odd)) {
      if ('raw' in reply) reply.header(name, value as never);
      else reply.setHeader(name, value as never);
    }
    return { execution };
  }

  @Post('latin-1-header')
  @Idempotent()
  async latin1(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: AnyReply) {
    const execution = await scenario.run();
    reply.header('X-Text', 'caf\u00e9');
    return { execution };
  }

  @Post('links')
  @Idempotent()
  async links(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: AnyReply) {
    const execution = await scenario.run();
    peekRaw(reply).appendHeader('Link', '</handler>; rel=b');
    return { execution };
  }

  @Post('listens-to-the-head')
  @Idempotent()
  async listens(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: AnyReply) {
    const execution = await scenario.run();
    const raw = peekRaw(reply);
    beforeTheHead(raw, () => raw.setHeader('X-Late', `from execution ${execution}`));
    return { execution };
  }

  @Post('ends-again-later')
  @Idempotent()
  async endsAgain(@InScenario() scenario: Scenario, @Res() reply: AnyReply) {
    const execution = await scenario.run();
    const raw = takeRaw(reply);
    const end = raw.end.bind(raw);
    raw.once('finish', () => {
      setImmediate(() => {
        try {
          end('and again');
          scenario.notes.push('nothing happened');
        } catch (error) {
          scenario.notes.push(error);
        }
        scenario.passed.add();
      });
    });
    raw.end(`execution ${execution}`);
  }

  @Post('waits-for-drain')
  @Idempotent({ outcome: { maxBytes: 1_000 } })
  async waitsForDrain(@InScenario() scenario: Scenario, @Res() reply: AnyReply) {
    await scenario.run();
    const raw = takeRaw(reply);
    raw.setHeader('Content-Type', 'text/plain');
    for (let i = 0; i < 5; i += 1) {
      if (!raw.write(LARGE)) await new Promise((resolve) => raw.once('drain', resolve));
    }
    raw.end();
  }

  @Post('large-failure')
  @Idempotent({ outcome: { maxBytes: 1_000 } })
  async largeFailure(@InScenario() scenario: Scenario, @Res() reply: AnyReply) {
    await scenario.run();
    const raw = takeRaw(reply);
    raw.statusCode = 500;
    for (let i = 0; i < 5; i += 1) raw.write(LARGE);
    raw.end();
  }

  @Post('large-failure-by-callback')
  @Idempotent({ outcome: { maxBytes: 1_000 } })
  largeFailureByCallback(@InScenario() scenario: Scenario, @Res() reply: AnyReply) {
    const raw = takeRaw(reply);
    void scenario.run().then(() => {
      raw.statusCode = 500;
      for (let i = 0; i < 5; i += 1) raw.write(LARGE);
      raw.end();
    });
  }
}

/** Fastify alone takes a stream of objects, which it then cannot send. */
const ObjectsController = controllerOf('ObjectsController', {
  objects: [
    Idempotent(),
    ...native((execution, reply: FastifyReply) => {
      reply.send(Readable.from([{ execution }]));
    }),
  ],
});

/** What the client sees: the status, or a closed connection. */
async function outcomeOf(response: Promise<RawResponse>): Promise<number | 'closed'> {
  return response.then(
    ({ status }) => status,
    () => 'closed' as const,
  );
}

describe.each(platforms)('sending on %s', (platform) => {
  const app = useServer(() =>
    startApp({
      platform,
      store: slowStore(),
      controllers: [SendingController, ObjectsController],
      options: { limits: { shutdownTimeout: 1_000 } },
      configure: withMiddleware,
    }),
  );

  const expectError = async (response: Promise<RawResponse>) =>
    expect([500, 'closed']).toContain(await outcomeOf(response));

  const expectAlive = async (scenario: Scenario) =>
    expect(await scenario.post('/value', { key: 'another' })).toMatchObject({ status: 201 });

  it.each(['/reason/beyond-latin-1', '/reason/with-a-line-break', '/status/0', '/status/99'])(
    'reports a success that cannot be sent as an error, and does not run it again: %s',
    async (path) => {
      const scenario = app.scenario();
      await expectError(scenario.post(path));
      const second = await onceSettled(() => scenario.post(path));
      expect(second.text).not.toContain('idempotency_in_progress');
      expect(scenario.executions).toBe(1);
      await expectAlive(scenario);
    },
  );

  it.each(['/status/NaN', '/status/1000'])(
    'treats an invalid status as a failure, and frees the key: %s',
    async (path) => {
      const scenario = app.scenario();
      for (let post = 1; post <= 2; post += 1) await expectError(scenario.post(path));
      expect(scenario.executions).toBe(2);
      await expectAlive(scenario);
    },
  );

  it.each([
    '/native-reason/beyond-latin-1',
    '/native-reason/with-a-line-break',
    '/native-status/0',
    '/native-status/99',
    '/native-status/NaN',
    '/native-status/1000',
    '/native-object',
  ])(
    'throws in a native handler whose response cannot be sent, and frees the key: %s',
    async (path) => {
      const scenario = app.scenario();
      for (let post = 1; post <= 2; post += 1) await expectError(scenario.post(path));
      expect(scenario.executions).toBe(2);
      expect(scenario.notes).toHaveLength(2);
      await expectAlive(scenario);
    },
  );

  it('does not run a success again after a listener to the head throws', async () => {
    const scenario = app.scenario();
    await expectError(scenario.post('/value', middleware('throws')));
    const second = await scenario.post('/value');
    expect(second).toMatchObject({ status: 201, replayed: true, json: { execution: 1 } });
    expect(scenario.executions).toBe(1);
  });

  it('keeps the record when a listener to the head throws during a replay', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/value');
    await expectError(scenario.post('/value', middleware('throws')));
    expectReplay(await scenario.post('/value'), first);
    expect(scenario.executions).toBe(1);
  });

  it('replays header values that are not strings as they were sent', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/odd-headers');
    expect(first).toMatchObject({ status: 201, replayed: false });
    expect(first.header('x-total')).toBe('10');
    expect(first.header('x-day')).toBe(String(new Date(0)));
    expectReplay(await scenario.post('/odd-headers'), first);
    expect(scenario.executions).toBe(1);
  });

  it('replays a Latin-1 header byte for byte', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/latin-1-header');
    expectReplay(await scenario.post('/latin-1-header'), first);
  });

  it('replays a header completely to which middleware and handler contributed', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/links', middleware('links'));
    expect(first.all('link')).toEqual(['</middleware>; rel=a', '</handler>; rel=b']);
    expectReplay(await scenario.post('/links', middleware('links')), first);
    expectReplay(await scenario.post('/links'), first);
    expect(scenario.executions).toBe(1);
  });

  it('calls the handler’s wrapper around the response when the response is sent', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/listens-to-the-head');
    expect(first).toMatchObject({ status: 201, json: { execution: 1 } });
    expect(first.header('x-late')).toBe('from execution 1');
    const second = await scenario.post('/listens-to-the-head');
    expect(second).toMatchObject({ status: 201, replayed: true, json: { execution: 1 } });
    expect(scenario.executions).toBe(1);
  });

  it('ignores a second call of end() after the response', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/ends-again-later');
    expect(first.text).toBe('execution 1');
    await scenario.passed.reached(2);
    expect(scenario.notes).toEqual(['nothing happened']);
    expectReplay(await scenario.post('/ends-again-later'), first);
  });

  it.each(['no middleware', 'streams'])(
    'sends a large response that waits for drain completely: %s [P43]',
    async (name) => {
      const scenario = app.scenario();
      const first = await scenario.post('/waits-for-drain', middleware(name));
      expect(first).toMatchObject({ status: 201, replayed: false });
      expect(first.body).toHaveLength(5 * LARGE.length);
      expectProblem(await scenario.post('/waits-for-drain'), 'response-not-kept');
      expect(scenario.executions).toBe(1);
    },
  );

  it.each(['/large-failure', '/large-failure-by-callback'])(
    'frees the key after a failure that is too large to store: %s',
    async (path) => {
      const scenario = app.scenario();
      const first = await scenario.post(path);
      expect(first).toMatchObject({ status: 500, replayed: false });
      expect(first.body).toHaveLength(5 * LARGE.length);
      const second = await onceSettled(() => scenario.post(path));
      expect(second).toMatchObject({ status: 500, replayed: false });
      expect(scenario.executions).toBe(2);
    },
  );

  if (platform === 'fastify')
    it('settles the attempt when a stream of objects cannot be sent, and nothing runs again', async () => {
      const scenario = app.scenario();
      await expectError(scenario.post('/objects'));
      expectProblem(await onceSettled(() => scenario.post('/objects')), 'response-not-kept');
      expect(scenario.executions).toBe(1);
    });
});

describe('sent by handlers', () => {
  const stores = useStores();

  @Controller()
  class GivenUpController {
    @Post('given-up')
    @Around(givingUp)
    @Idempotent()
    async givenUp(
      @InScenario() scenario: Scenario,
      @Res({ passthrough: true }) reply: ExpressResponse | FastifyReply,
    ) {
      const raw = takeRaw(reply);
      raw.writeHead(201);
      raw.write('begun');
      await scenario.run();
      throw new Error('planned');
    }
  }

  describe.each(platforms)('a response that an ordinary handler sends itself on %s', (platform) => {
    const app = useServer(() =>
      startApp({
        platform,
        store: stores.fresh('redis'),
        controllers: [sendingController(platform, {}, () => undefined), GivenUpController],
      }),
    );

    it('is begun once, although an interceptor around it gives up, and then it throws', async () => {
      const scenario = app.scenario();
      scenario.gate.close();
      scenario.timeout.close();
      const pending = scenario.start('POST', '/given-up');
      await scenario.started.reached(1);
      scenario.timeout.open();
      expect((await pending.response).text).toBe('begun');
      scenario.gate.open();
      await scenario.passed.reached(1);
      expectProblem(await onceSettled(() => scenario.post('/given-up')), 'response-not-kept');
      expect(scenario.executions).toBe(1);
    });

    describe.each(formsOf(platform))('by %s', (form) => {
      const path = (end: string) => `/${encodeURIComponent(form)}/${end}`;
      const isPartial = PARTIAL.includes(form);

      it('is its outcome if it returns', async () => {
        const scenario = app.scenario();
        const first = await scenario.post(path('returns'));
        expect(first.status).toBeLessThan(400);
        expectReplay(await scenario.post(path('returns')), first);
        expect(scenario.executions).toBe(1);
      });

      it('is its outcome if it throws after it [P19]', async () => {
        const scenario = app.scenario();
        const first = await scenario.post(path('throws'));
        expect(first.status).toBeLessThan(400);
        const second = await scenario.post(path('throws'));
        if (isPartial) expectProblem(second, 'response-not-kept');
        else expectReplay(second, first);
        expect(scenario.executions).toBe(1);
      });

      it(`leaves ${isPartial ? 'after' : 'before'} the end of a handler that awaits something after it`, async () => {
        const scenario = app.scenario();
        scenario.gate.close();
        const pending = scenario.start('POST', path('awaits'));
        await scenario.started.reached(1);
        if (isPartial) {
          await app.scenario().post(path('returns'));
          expect(pending.receivedBytes).toBe(0);
          scenario.gate.open();
        }
        const first = await pending.response;
        expect(first.status).toBeLessThan(400);
        expect(scenario.passed.count).toBe(isPartial ? 1 : 0);
        expectReplay(await onceSettled(() => scenario.post(path('awaits'))), first);
        scenario.gate.open();
        await scenario.passed.reached(1);
        expectReplay(await scenario.post(path('awaits')), first);
        expect(scenario.executions).toBe(1);
      });
    });
  });
});

const declined = after((execution) => {
  throw new HttpException({ statusCode: 402, url: '/nowhere', execution }, 402);
});

const page = Render('page.text');
const Pages = controllerOf('Pages', {
  page: [page, Idempotent(), respond],
  'page/with-headers': [
    ...[page, Header('X-Own', 'kept'), Idempotent()],
    ...withReply((execution, reply: Reply) => {
      reply.status(202).header('Content-Language', 'de');
      return { execution };
    }),
  ],
  'page/injected': [
    ...[page, Idempotent()],
    ...native((execution, reply: Reply) => {
      reply.header('Content-Language', 'de');
      return { execution };
    }),
  ],
  'page/waiting': [page, Idempotent({ duplicates: 'wait' }), respond],
  'page/declined': [page, Idempotent(), declined],
  'page/broken': [page, Idempotent(), after((another) => ({ another }))],
});

const redirect = Redirect('/there', 303);
const Redirects = controllerOf('Redirects', {
  elsewhere: [redirect, Idempotent(), after(() => undefined)],
  'elsewhere/by-value': [
    ...[redirect, Idempotent()],
    after((execution) => ({ url: `/things/${execution}`, statusCode: 307 })),
  ],
  'elsewhere/injected': [
    ...[redirect, Idempotent()],
    ...native((execution, reply: Reply) => {
      reply.header('X-Own', `kept ${execution}`);
    }),
  ],
  'elsewhere/declined': [redirect, Idempotent(), declined],
});

const OF_THING = { type: 'object', required: ['id'], properties: { id: { type: 'number' } } };
const schema = RouteSchema({ response: { 201: OF_THING } });
const Serialized = controllerOf('Serialized', {
  thing: [schema, Idempotent(), after((id) => ({ id }))],
  'thing/declined': [schema, Idempotent(), declined],
});

/** Renders a page that shows the execution. */
function render(view: string, data: { execution?: number } | undefined): string {
  rendered.push(view);
  if (data?.execution === undefined) throw new ReferenceError('execution is not defined');
  return `<p>execution ${String(data.execution)}</p>`;
}

const rendered: string[] = [];
const caught: unknown[] = [];

@Catch()
class EverythingFilter extends BaseExceptionFilter {
  override catch(error: unknown, host: ArgumentsHost): void {
    caught.push(error);
    super.catch(error, host);
  }
}

type Done = (error: unknown, html?: string) => void;

/** Registers an Express engine, and for Fastify a `reply.view()` as @fastify/view does. */
function setViews(app: INestApplication, platform: Platform, folder: string): void {
  if (platform === 'express') {
    const express = app as NestExpressApplication;
    express.setBaseViewsDir(folder);
    express.engine('text', (path: string, data: object, done: Done) => {
      try {
        done(null, render(path, data));
      } catch (error) {
        done(error);
      }
    });
    return;
  }
  const fastify = (app as NestFastifyApplication).getHttpAdapter().getInstance();
  fastify.decorateReply(
    'view' as never,
    async function (this: Reply, view: string, data: object) {
      try {
        const html = await Promise.resolve(render(view, data));
        this.header('Content-Type', 'text/html; charset=utf-8').send(html);
      } catch (error) {
        this.send(error);
      }
      return this;
    } as never,
  );
}

describe.each(platforms)('pages, redirects and serialized values on %s', (platform) => {
  let app: TestApp;
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'views-'));
    await writeFile(join(folder, 'page.text'), 'Express requires this file.');
    const controllers: Type[] = [Pages, Redirects, Serialized];
    app = await startApp({
      platform,
      store: memoryStore(),
      controllers,
      configure: (nest) => {
        setViews(nest, platform, folder);
        nest.useGlobalFilters(new EverythingFilter(nest.getHttpAdapter()));
      },
    });
  });

  afterEach(() => {
    rendered.length = 0;
    caught.length = 0;
  });

  afterAll(async () => {
    await app.close();
    await rm(folder, { recursive: true });
  });

  const routes = [Pages, Redirects, Serialized].flatMap(routesOf);

  it.each(routes)('neither render nor throw in a replay of %s', async (path) => {
    const scenario = app.scenario();
    const first = await scenario.post(path);
    const before = { rendered: rendered.length, caught: caught.length };
    expectReplay(await scenario.post(path), first);
    expectReplay(await scenario.post(path), first);
    expect({ rendered: rendered.length, caught: caught.length }).toEqual(before);
    expect(scenario.executions).toBe(1);
  });

  it('replay a page with its status and headers', async () => {
    const scenario = app.scenario();
    await scenario.post('/page/with-headers');
    const replay = await scenario.post('/page/with-headers');
    expect([replay.status, replay.text]).toEqual([202, '<p>execution 1</p>']);
    expect(replay.header('content-type')).toContain('text/html');
    expect([replay.header('x-own'), replay.header('content-language')]).toEqual(['kept', 'de']);
    expect(rendered).toHaveLength(1);
  });

  it('replay the failure of a page that could not be rendered', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/page/broken');
    expect([first.status, caught.length]).toEqual([500, 1]);
    const replay = await scenario.post('/page/broken');
    expect([replay.status, replay.replayed, replay.text]).toEqual([500, true, first.text]);
    expect(scenario.executions).toBe(1);
  });

  it('render a page once for the first request and a waiting duplicate', async () => {
    const scenario = app.scenario();
    scenario.gate.close();
    const first = scenario.start('POST', '/page/waiting');
    await scenario.started.reached(1);
    const second = scenario.start('POST', '/page/waiting');
    await scenario.arrived.reached(2);
    scenario.gate.open();
    expectReplay(await second.response, await first.response);
    expect([rendered.length, caught.length, scenario.executions]).toEqual([1, 0, 1]);
  });

  it('render nothing for a key that was reused with another content', async () => {
    const scenario = app.scenario();
    await scenario.post('/page', { json: { amount: 1 } });
    expectProblem(await scenario.post('/page', { json: { amount: 2 } }), 'key-reused');
    expect(rendered).toHaveLength(1);
  });
});
