import {
  Catch,
  Controller,
  Header,
  Post,
  Res,
  StreamableFile,
  UseFilters,
  UseInterceptors,
  type ArgumentsHost,
  type CallHandler,
  type ExceptionFilter,
  type ExecutionContext,
  type INestApplication,
  type NestInterceptor,
} from '@nestjs/common';
import { describe, expect, it } from '@jest/globals';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { from, map, tap, type Observable } from 'rxjs';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { platforms } from '../../../support/http/combinations.js';
import { expectProblem, expectReplay } from '../../../support/http/expectations.js';
import { type FastifyReply, type Reply, peekRaw, takeRaw } from '../../../support/http/reply.js';
import { routesOf } from '../../../support/http/routes-of.js';
import { InScenario, Scenario, scenarioOf } from '../../../support/http/scenario.js';
import { startApp } from '../../../support/http/start-app.js';
import { useServer } from '../../../support/servers/use-server.js';

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
@Controller('marks')
class Marking {
  @Post('by-decorator')
  @Header(MARKER, 'true')
  @Idempotent()
  byDecorator(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('by-reply')
  @Idempotent()
  byReply(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    reply.header(MARKER, ['true', 'true']);
    return scenario.response();
  }

  @Post('by-response')
  @Idempotent()
  byResponse(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: AnyReply) {
    peekRaw(reply).setHeader(MARKER, 'true').setHeader('X-Own', 'kept');
    return scenario.response();
  }

  @Post('by-head')
  @Idempotent()
  async byHead(@InScenario() scenario: Scenario, @Res() reply: AnyReply) {
    const execution = await scenario.run();
    takeRaw(reply)
      .writeHead(201, { [MARKER]: 'true', 'X-Own': 'kept' })
      .end(`execution ${execution}`);
  }

  @Post('by-flat-head')
  @Idempotent()
  async byFlatHead(@InScenario() scenario: Scenario, @Res() reply: AnyReply) {
    const execution = await scenario.run();
    takeRaw(reply).writeHead(201, ['X-Own', MARKER, MARKER, 'true']).end(`execution ${execution}`);
  }

  @Post('by-interceptor')
  @UseInterceptors(MarksValue)
  @Idempotent()
  byInterceptor(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('by-filter')
  @UseFilters(MarkingFilter)
  @Idempotent()
  async byFilter(@InScenario() scenario: Scenario) {
    await scenario.run();
    throw new Error('declined');
  }

  @Post('by-middleware')
  @Idempotent()
  byMiddleware(@InScenario() scenario: Scenario) {
    return scenario.response();
  }
}

@Controller('passes')
class Passing {
  @Post('what-is-too-large')
  @Idempotent({ outcome: { maxBytes: 10 } })
  async large(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    await scenario.run();
    reply.header(MARKER, 'true');
    return new StreamableFile(Buffer.alloc(100));
  }

  @Post('what-an-interceptor-answers')
  @UseInterceptors(GivesUp)
  @Idempotent()
  outside(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('what-an-interceptor-writes')
  @UseInterceptors(GivesUpRaw)
  @Idempotent()
  outsideRaw(@InScenario() scenario: Scenario) {
    return scenario.response();
  }
}

/** A gateway, which responds with another service's response. */
@Controller('gateway')
class Gateway {
  @Post()
  @Idempotent()
  async pass(@InScenario() scenario: Scenario) {
    const headers = { [MARKER]: 'true', 'X-Own': 'kept', 'Content-Type': 'text/plain' };
    return new Response(`execution ${await scenario.run()}`, { status: 201, headers });
  }
}

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
