import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { describe, expect, it } from '@jest/globals';
import {
  type ArgumentsHost,
  type CallHandler,
  Catch,
  Controller,
  type ExceptionFilter,
  type ExecutionContext,
  Header,
  HttpException,
  type INestApplication,
  type NestInterceptor,
  StreamableFile,
  UseFilters,
  UseInterceptors,
} from '@nestjs/common';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { from, map, type Observable, tap } from 'rxjs';
import { Public } from '../../../support/http/callers.guard.js';
import { platforms } from '../../../support/http/combinations.js';
import {
  expectProblem,
  expectReplay,
  type ProblemName,
  problems,
} from '../../../support/http/expectations.js';
import { onceSettled } from '../../../support/http/once-settled.js';
import { type FastifyReply, peekRaw, type Reply, takeRaw } from '../../../support/http/reply.js';
import {
  after,
  controllerOf,
  native,
  respond,
  routesOf,
  withReply,
} from '../../../support/http/routes-of.js';
import { scenarioOf } from '../../../support/http/scenario.js';
import { startApp, type StartAppOptions, type TestApp } from '../../../support/http/start-app.js';
import type { RawResponse } from '../../../support/http/wire/raw-response.js';
import { useServer } from '../../../support/servers/use-server.js';

function failing(...chunks: readonly string[]): Readable {
  const rest = [...chunks];
  return new Readable({
    read() {
      const chunk = rest.shift();
      if (chunk === undefined) process.nextTick(() => this.destroy(new Error('disk')));
      else this.push(chunk);
    },
  });
}

const FilesController = controllerOf('FilesController', {
  unreadable: [Idempotent(), after(() => new StreamableFile(failing(), { type: 'text/csv' }))],
  'cut-short': [
    Idempotent(),
    after(() => new StreamableFile(failing('a;b\n'), { type: 'text/csv' })),
  ],
  'ended-early': [
    Idempotent(),
    after(() => new StreamableFile(Readable.from(['a;b\n']), { type: 'text/csv', length: 8 })),
  ],
});

describe.each(platforms)('a returned file, on %s,', (platform) => {
  const app = useServer(() =>
    startApp({ platform, store: memoryStore(), controllers: [FilesController] }),
  );

  it('that fails before its first byte: retries get the error that the client got [P41]', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/unreadable');
    expect(first.status).toBe(platform === 'express' ? 400 : 500);
    expectReplay(await scenario.post('/unreadable'), first);
    expect(scenario.executions).toBe(1);
  });

  it('that breaks off later is never replayed as a whole one, nor made again [P42]', async () => {
    const scenario = app.scenario();
    // On Express the connection ends.
    const first = await scenario.post('/cut-short').catch(() => undefined);
    expect(first === undefined).toBe(platform === 'express');
    const again = await onceSettled(() => scenario.post('/cut-short'));
    // Fastify has read it to its end before the first byte leaves.
    if (first === undefined) expectProblem(again, 'response-not-kept');
    else expectReplay(again, first);
    expect(scenario.executions).toBe(1);
  });

  it('that is shorter than it announces never looks whole, and is not replayed as a whole one [P71]', async () => {
    const scenario = app.scenario();
    await expect(scenario.post('/ended-early')).rejects.toThrow();
    expectProblem(await onceSettled(() => scenario.post('/ended-early')), 'response-not-kept');
    expect(scenario.executions).toBe(1);
  });
});

const ProblemsController = controllerOf('ProblemsController', {
  things: [Idempotent(), respond],
  table: [
    Header('Content-Type', 'text/csv; charset=utf-8'),
    Header('Content-Language', 'de'),
    Idempotent(),
    after((execution) => `execution;${execution}`),
  ],
  public: [Public(), Idempotent(), respond],
  unstored: [Idempotent({ outcome: { storeBody: false } }), respond],
});

/** Gives all errors the application's own shape. */
@Catch(HttpException)
class OwnErrorsFilter implements ExceptionFilter {
  catch(error: HttpException, host: ArgumentsHost): void {
    const { code } = error as { code?: string };
    host.switchToHttp().getResponse<Reply>().status(error.getStatus()).send({ failure: code });
  }
}

/** Sends the problem document under the application's own media type. */
@Catch(HttpException)
class OwnTypeFilter implements ExceptionFilter {
  catch(error: HttpException, host: ArgumentsHost): void {
    const reply = host.switchToHttp().getResponse<Reply>().status(error.getStatus());
    reply.header('content-type', 'application/vnd.failure+json; charset=utf-8');
    reply.send(error.getResponse());
  }
}

describe.each(platforms)('error documents on %s', (platform) => {
  const started = (rest: Pick<StartAppOptions, 'options' | 'configure'> = {}) =>
    useServer(() =>
      startApp({ platform, store: memoryStore(), controllers: [ProblemsController], ...rest }),
    );
  const app = started();
  const ownBaseApp = started({
    options: { http: { problemTypeBase: 'https://api.example.com/problems' } },
  });
  const mappingApp = started({
    configure: (nest) => nest.useGlobalFilters(new OwnErrorsFilter()),
  });
  const typingApp = started({ configure: (nest) => nest.useGlobalFilters(new OwnTypeFilter()) });

  /** Provokes every problem that can occur while the store is available. */
  async function provokeAll(of: TestApp) {
    const scenario = of.scenario();
    const json = { amount: 1 };
    scenario.gate.close();
    const pending = scenario.start('POST', '/things', { json });
    await scenario.started.reached(1);
    const inProgress = await scenario.post('/things', { json });
    scenario.gate.open();
    await pending.response;
    await scenario.post('/unstored', { json });
    const responses = {
      'key-missing': await scenario.post('/things', { key: null, json }),
      'key-invalid': await scenario.post('/things', { key: `"${scenario.key}`, json }),
      'caller-unknown': await scenario.post('/public', { as: null, json }),
      'key-reused': await scenario.post('/things', { json: { amount: 2 } }),
      'in-progress': inProgress,
      'response-not-kept': await scenario.post('/unstored', { json }),
      'content-invalid': await scenario.post('/things', { body: '{"amount":1e400}' }),
    } satisfies Partial<Record<ProblemName, RawResponse>>;
    return Object.entries(responses) as [ProblemName, RawResponse][];
  }

  it('C84 http.problemTypeBase makes the types point to the API’s own pages', async () => {
    const responses = await provokeAll(ownBaseApp);
    for (const [name, { json }] of responses) {
      expect(json.type).toBe(`https://api.example.com/problems/${name}`);
    }
  });

  it('C83 an application can map problems in its own filters', async () => {
    const responses = await provokeAll(mappingApp);
    for (const [name, response] of responses) {
      const { status, json } = response;
      expect({ status, json }).toEqual({
        status: problems[name].status,
        json: { failure: problems[name].code },
      });
      // Headers about the document go with it; Retry-After is about the request and stays.
      expect(response.header('content-type')).toBe('application/json; charset=utf-8');
      expect(response.header('content-language')).toBeUndefined();
      expect(response.header('retry-after')).toBe(problems[name].retryable ? '1' : undefined);
    }
  });

  it('C83 a filter can send the document under its own media type', async () => {
    const responses = await provokeAll(typingApp);
    for (const [name, response] of responses) {
      expect(response.json).toMatchObject({ code: problems[name].code });
      expect(response.header('content-type')).toBe('application/vnd.failure+json; charset=utf-8');
      expect(response.header('content-language')).toBe('en');
    }
  });

  it('C83 a problem keeps its own media type and language on a route that sets others', async () => {
    const scenario = app.scenario();
    const response = await scenario.post('/table', { json: {} });
    expect([response.status, response.header('content-type')]).toEqual([
      201,
      'text/csv; charset=utf-8',
    ]);
    const problem = await scenario.post('/table', { json: { another: 'content' } });
    expectProblem(problem, 'key-reused');
    expect(problem.header('content-language')).toBe('en');
    const replay = await scenario.post('/table', { json: {} });
    expect([
      replay.replayed,
      replay.header('content-type'),
      replay.header('content-language'),
    ]).toEqual([true, 'text/csv; charset=utf-8', 'de']);
  });
});

const MARKER = 'iDEMPOTENT-rEPLAYED';

type AnyReply = ServerResponse | FastifyReply;

@Catch()
class MarkingFilter implements ExceptionFilter {
  catch(_error: unknown, host: ArgumentsHost): void {
    const reply = host.switchToHttp().getResponse<Reply>();
    reply.status(402).header(MARKER, 'true').send({ declined: true });
  }
}

/** Abandons the handler as soon as it runs, and responds instead. */
class GivesUp implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const http = context.switchToHttp();
    next.handle().subscribe();
    return from(scenarioOf(http.getRequest()).started.reached(1)).pipe(
      map(() => {
        http.getResponse<Reply>().header(MARKER, 'true');
        return { outside: true };
      }),
    );
  }
}

/** The same, bypassing the framework. */
class GivesUpRaw implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const http = context.switchToHttp();
    next.handle().subscribe();
    return from(scenarioOf(http.getRequest()).started.reached(1)).pipe(
      map(() => {
        takeRaw(http.getResponse<AnyReply>())
          .writeHead(503, [MARKER, 'true', 'X-Own', 'kept'])
          .end();
      }),
    );
  }
}

class MarksValue implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const reply = context.switchToHttp().getResponse<Reply>();
    return next.handle().pipe(tap(() => reply.header(MARKER, 'true')));
  }
}

/** Each route sets the marker in a different way. */
const Marking = controllerOf(
  'Marking',
  {
    'by-decorator': [Header(MARKER, 'true'), respond],
    'by-reply': withReply((execution, reply: Reply) => {
      reply.header(MARKER, ['true', 'true']);
      return { execution };
    }),
    'by-response': withReply((execution, reply: AnyReply) => {
      peekRaw(reply).setHeader(MARKER, 'true').setHeader('X-Own', 'kept');
      return { execution };
    }),
    'by-head': native((execution, reply: AnyReply) => {
      const head = { [MARKER]: 'true', 'X-Own': 'kept' };
      takeRaw(reply).writeHead(201, head).end(`execution ${execution}`);
    }),
    'by-flat-head': native((execution, reply: AnyReply) => {
      const head = ['X-Own', MARKER, MARKER, 'true'];
      takeRaw(reply).writeHead(201, head).end(`execution ${execution}`);
    }),
    'by-interceptor': [UseInterceptors(MarksValue), Idempotent(), respond],
    'by-filter': [
      UseFilters(MarkingFilter),
      after(() => {
        throw new Error('declined');
      }),
    ],
    'by-middleware': respond,
  },
  Controller('marks'),
  Idempotent(),
);

const Passing = controllerOf(
  'Passing',
  {
    'what-is-too-large': [
      Idempotent({ outcome: { maxBytes: 10 } }),
      ...withReply((_, reply: Reply) => {
        reply.header(MARKER, 'true');
        return new StreamableFile(Buffer.alloc(100));
      }),
    ],
    'what-an-interceptor-answers': [UseInterceptors(GivesUp), Idempotent(), respond],
    'what-an-interceptor-writes': [UseInterceptors(GivesUpRaw), Idempotent(), respond],
  },
  Controller('passes'),
);

/** A gateway, which responds with another service's response. */
const Gateway = controllerOf('Gateway', {
  gateway: [
    Idempotent(),
    after((execution) => {
      const headers = { [MARKER]: 'true', 'X-Own': 'kept', 'Content-Type': 'text/plain' };
      return new Response(`execution ${execution}`, { status: 201, headers });
    }),
  ],
});

function configure(nest: INestApplication): void {
  nest.use((request: IncomingMessage, response: ServerResponse, next: () => void) => {
    if (request.url?.endsWith('by-middleware') === true) response.setHeader(MARKER, 'true');
    next();
  });
}

describe.each(platforms)('the replay marker on %s', (platform) => {
  const start = {
    platform,
    store: memoryStore(),
    controllers: [Marking, Passing, Gateway],
    configure,
  };
  const app = useServer(() => startApp(start));
  /** The same application with another `http.replayHeader`. */
  const other = useServer(() =>
    startApp({ ...start, options: { http: { replayHeader: 'X-Replayed' } } }),
  );

  it.each([...routesOf(Marking).map((path) => `/marks${path}`), '/gateway'])(
    'is set on replays of %s only, and is not part of the outcome',
    async (path) => {
      const scenario = app.scenario();
      const first = await scenario.post(path);
      expect(first.all('idempotent-replayed')).toEqual([]);
      expectReplay(await scenario.post(path), first);
      const elsewhere = await scenario.post(path, { port: other.port });
      expect(elsewhere.header('x-replayed')).toBe('true');
      // There it is an ordinary header, which these two routes also set on a replay.
      const isSetBefore = /by-(middleware|decorator)$/.test(path);
      expect(elsewhere.all('idempotent-replayed')).toEqual(isSetBefore ? ['true'] : []);
    },
  );

  it.each(routesOf(Passing))('is not set on the response of %s', async (path) => {
    const scenario = app.scenario();
    scenario.gate.close();
    if (path.endsWith('large')) scenario.gate.open();
    const response = await scenario.post(`/passes${path}`);
    expect(response.all('idempotent-replayed')).toEqual([]);
    scenario.gate.open();
  });

  it('is not set on the rejection of a request', async () => {
    const scenario = app.scenario();
    await scenario.post('/marks/by-middleware', { json: { amount: 1 } });
    const rejected = await scenario.post('/marks/by-decorator', { key: null });
    expectProblem(rejected, 'key-missing');
    expectProblem(
      await scenario.post('/marks/by-middleware', { json: { amount: 2 } }),
      'key-reused',
    );
  });
});
