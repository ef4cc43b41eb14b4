import {
  Controller,
  createParamDecorator,
  Post,
  Req,
  Res,
  type CallHandler,
  type ExecutionContext,
  type INestApplication,
} from '@nestjs/common';
import { ExpressAdapter } from '@nestjs/platform-express';
import { describe, expect, it, jest } from '@jest/globals';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Idempotent } from 'nestjs-idempotency';
import { IdempotencyInterceptor } from '../../../support/internals/nest.js';
import { lastValueFrom } from 'rxjs';
import { platforms } from '../../../support/http/combinations.js';
import { expectProblem, expectReplay } from '../../../support/http/expectations.js';
import { onceSettled } from '../../../support/http/once-settled.js';
import { type ExpressResponse, type FastifyReply, takeRaw } from '../../../support/http/reply.js';
import { InScenario, Scenario } from '../../../support/http/scenario.js';
import { startApp } from '../../../support/http/start-app.js';
import { slowStore } from '../../../support/stores/slow-store.js';
import { useServer } from '../../../support/servers/use-server.js';

const SEALED_HEADER = 'x-sealed-response';

type AnyRequest = IncomingMessage | { readonly raw: IncomingMessage };
type AnyReply = ExpressResponse | FastifyReply;

/** The response, of which Nest does not know that the handler has it. In a function: Nest awaits Fastify's reply. */
const TheResponse = createParamDecorator(
  (_: unknown, context: ExecutionContext) => () => context.switchToHttp().getResponse<AnyReply>(),
);

type Listener = (request: IncomingMessage, response: ServerResponse) => void;

/** Another application inside of this one. Express gives each response the prototype of its application. */
const elsewhere = new ExpressAdapter().getInstance<Listener & { use(listener: Listener): void }>();
elsewhere.use((_request, response) => {
  response.statusCode = 201;
  response.setHeader('X-Own', 'kept').end('sent elsewhere');
});

function respondElsewhere(request: AnyRequest, response: ServerResponse): void {
  elsewhere('raw' in request ? request.raw : request, response);
}

@Controller()
class PlainController {
  @Post('plain')
  @Idempotent()
  async plain(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('elsewhere')
  @Idempotent()
  async elsewhere(
    @InScenario() scenario: Scenario,
    @Req() request: AnyRequest,
    @Res() reply: AnyReply,
  ) {
    await scenario.run();
    respondElsewhere(request, takeRaw(reply));
  }

  @Post('elsewhere/unannounced')
  @Idempotent()
  async unannounced(
    @InScenario() scenario: Scenario,
    @Req() request: AnyRequest,
    @TheResponse() reply: () => AnyReply,
  ) {
    await scenario.run();
    respondElsewhere(request, takeRaw(reply()));
  }
}

/** Instrumentation that makes `end` read-only. */
function sealEnd(app: INestApplication): void {
  app.use((request: IncomingMessage, response: ServerResponse, next: () => void) => {
    if (request.headers[SEALED_HEADER] !== undefined) {
      Object.defineProperty(response, 'end', { value: response.end.bind(response) });
    }
    next();
  });
}

describe.each(platforms)('unusual surroundings on %s', (platform) => {
  const app = useServer(() =>
    startApp({
      platform,
      store: slowStore(),
      controllers: [PlainController],
      configure: sealEnd,
    }),
  );

  /** Calls the interceptor as another interceptor around it may. */
  async function handing<Result>(
    handle: (next: CallHandler) => unknown,
    work: () => Promise<Result>,
  ): Promise<Result> {
    const intercept = Reflect.get(IdempotencyInterceptor.prototype, 'intercept');
    const calls = jest
      .spyOn(IdempotencyInterceptor.prototype, 'intercept')
      .mockImplementation(function (this: IdempotencyInterceptor, context, next) {
        return intercept.call(this, context, { handle: () => handle(next) } as CallHandler);
      });
    try {
      const result = await work();
      expect(calls).toHaveBeenCalled();
      return result;
    } finally {
      calls.mockRestore();
    }
  }

  it('protects a handler whose call handler returns a promise', async () => {
    const scenario = app.scenario();
    const post = () => scenario.post('/plain');
    const first = await handing((next) => lastValueFrom(next.handle()), post);
    expect(first).toMatchObject({ status: 201, json: { execution: 1 } });
    expectReplay(await post(), first);
    expect(scenario.executions).toBe(1);
  });

  it.each([
    ['throws', () => { throw new TypeError('not today'); }], // prettier-ignore
    ['returns no stream', () => undefined],
  ])('responds with 500 and frees the key when the call handler %s', async (_how, handle) => {
    const scenario = app.scenario();
    const post = () => scenario.post('/plain');
    expect(await handing(handle, post)).toMatchObject({ status: 500, replayed: false });
    expect(scenario.executions).toBe(0);
    expect(await post()).toMatchObject({ status: 201, json: { execution: 1 } });
  });

  it('responds with 500 before the handler runs when the response cannot be patched', async () => {
    const scenario = app.scenario();
    const sealed = await scenario.post('/plain', { headers: [[SEALED_HEADER, '1']] });
    expect(sealed).toMatchObject({ status: 500, replayed: false });
    expect(scenario.executions).toBe(0);
    expect(await scenario.post('/plain')).toMatchObject({ status: 201, json: { execution: 1 } });
  });

  it('records the response of another application that a handler passes its response to', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/elsewhere');
    expect(first).toMatchObject({ status: 201, text: 'sent elsewhere', replayed: false });
    expectReplay(await scenario.post('/elsewhere'), first);
    expect(scenario.executions).toBe(1);
  });

  it('does not run an operation again whose response was sent past the recorder', async () => {
    const scenario = app.scenario();
    const path = '/elsewhere/unannounced';
    expect(await scenario.post(path)).toMatchObject({ status: 201, text: 'sent elsewhere' });
    expectProblem(await onceSettled(() => scenario.post(path)), 'response-not-kept');
    expect(scenario.executions).toBe(1);
  });
});
