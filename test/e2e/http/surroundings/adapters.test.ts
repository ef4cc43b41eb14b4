import { Readable } from 'node:stream';
import {
  applyDecorators,
  Controller,
  HttpCode,
  Post,
  Res,
  StreamableFile,
  type ExecutionContext,
} from '@nestjs/common';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { adapters, type AdaptedRequest, type SendAdapted } from '../../../support/http/adapters.js';
import {
  expectProblem,
  problems,
  type ProblemName,
  expectReplay,
} from '../../../support/http/expectations.js';
import type { RawResponse } from '../../../support/http/wire/raw-response.js';
import type { Reply } from '../../../support/http/reply.js';
import { InScenario, Scenario, SCENARIO_HEADER } from '../../../support/http/scenario.js';
import { startApp } from '../../../support/http/start-app.js';
import { useServer } from '../../../support/servers/use-server.js';
import { Tally } from '../../../support/waiting/tally.js';

/** How each PDF begins: bytes that are no UTF-8. */
const PDF = Buffer.from('255044462d312e370a25e2e3cfd30a', 'hex');
const LARGE = 'é'.repeat(20_000);

/** The same handlers, with and without the library. */
function controllerOf(prefix: string, ...decorators: MethodDecorator[]) {
  const Marked = () => applyDecorators(...decorators);

  @Controller(prefix)
  class PaymentsController {
    @Post('json')
    @Marked()
    async json(@InScenario() scenario: Scenario) {
      return { execution: await scenario.run(), payee: 'Café Zoë' };
    }

    @Post('text')
    @Marked()
    async text(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
      reply.header('Content-Type', 'text/plain; charset=utf-8');
      reply.header('Set-Cookie', ['a=1; Path=/', 'b=2']).header('X-Own', 'kept');
      return `Café, execution ${await scenario.run()}`;
    }

    @Post('bytes')
    @Marked()
    async bytes(@InScenario() scenario: Scenario) {
      await scenario.run();
      return new StreamableFile(PDF, { type: 'application/pdf' });
    }

    @Post('nothing')
    @HttpCode(204)
    @Marked()
    async nothing(@InScenario() scenario: Scenario): Promise<void> {
      await scenario.run();
    }

    @Post('large')
    @Marked()
    async large(@InScenario() scenario: Scenario) {
      return { execution: await scenario.run(), text: LARGE };
    }

    @Post('native')
    @Marked()
    async native(@InScenario() scenario: Scenario, @Res() reply: Reply) {
      await scenario.run();
      reply.status(202).header('Content-Type', 'application/pdf').send(PDF);
    }

    @Post('streamed')
    @Marked()
    async streamed(@InScenario() scenario: Scenario) {
      await scenario.run();
      const chunks = Readable.from([PDF, Buffer.alloc(300_000, PDF), Buffer.alloc(300_000, PDF)]);
      return new StreamableFile(chunks, { type: 'application/pdf', length: 600_000 + PDF.length });
    }
  }
  // Operations are named by it.
  return Object.defineProperty(PaymentsController, 'name', { value: prefix });
}

/** Authenticates without a look at the socket, which adapters lack. */
const guard = {
  canActivate: (context: ExecutionContext) => {
    context.switchToHttp().getRequest<{ user?: object }>().user = { id: 'alice' };
    return true;
  },
};

describe.each(adapters)('behind $name on $platform,', ({ platform, repeats, isMock, adapt }) => {
  const surroundings = new Tally();
  const ended = new Tally();
  const app = useServer(() =>
    startApp({
      platform,
      guard,
      store: memoryStore(),
      options: {
        telemetry: {
          start: () => () => undefined,
          around: () => {
            surroundings.add();
            return { run: (work) => work(), ended: () => void ended.add() };
          },
        },
      },
      controllers: [
        controllerOf('plain'),
        controllerOf('required', Idempotent()),
        controllerOf('optional', Idempotent({ key: { required: false } })),
        controllerOf('small', Idempotent({ outcome: { maxBytes: 100_000 } })),
      ],
    }),
  );
  let scenario: Scenario;
  let send: SendAdapted;
  beforeEach(() => {
    scenario = app.scenario();
    send = adapt(app.nest);
  });

  const request = (
    path: string,
    key: string | readonly string[] = scenario.key,
    more: Partial<AdaptedRequest> = {},
  ): AdaptedRequest => ({
    path,
    body: '{"amount":1}',
    ...more,
    headers: {
      host: 'shop.example',
      'content-type': 'application/json',
      [SCENARIO_HEADER]: scenario.id,
      'idempotency-key': key,
      ...more.headers,
    },
  });

  const expectRejection = (response: RawResponse, problem: ProblemName) => {
    if (isMock) expect(response.json).toMatchObject({ code: problems[problem].code });
    else expectProblem(response, problem);
  };

  it.each(['json', 'bytes', 'nothing', 'large', ...(isMock ? [] : ['text', 'native'])])(
    '%s is sent as without the library, and replayed',
    async (path) => {
      const plain = await send(request(`/plain/${path}`));
      for (const form of ['required', 'optional']) {
        const of = app.scenario();
        const sent = request(`/${form}/${path}`, of.key, { headers: { [SCENARIO_HEADER]: of.id } });
        const first = await send(sent);
        const retry = await send(sent);
        expect(first.text.slice(0, 300)).toBe(plain.text.slice(0, 300));
        expect({ form, executions: of.executions }).toEqual({ form, executions: 1 });
        expect(first.status).toBe(plain.status);
        expect(first.body.toString('hex')).toBe(plain.body.toString('hex'));
        expect(first.all('content-length')).toEqual(plain.all('content-length'));
        expect(first.all('set-cookie')).toEqual(plain.all('set-cookie'));
        expectReplay(retry, first);
        expect(retry.all('set-cookie')).toEqual([]);
      }
    },
  );

  it('a file that is too large to be kept arrives whole', async () => {
    const plain = await send(request('/plain/streamed'));
    const first = await send(request('/small/streamed'));
    expect(first.body.equals(plain.body)).toBe(true);
    expectRejection(await send(request('/small/streamed')), 'response-not-kept');
    expect(scenario.executions).toBe(2);
  });

  it('a request without a body is no request with an unread one', async () => {
    const { 'content-type': _, ...headers } = request('').headers;
    const sent = { path: '/required/json', headers };
    const first = await send(sent);
    expect({ status: first.status, text: first.text }).toMatchObject({ status: 201 });
    expectReplay(await send(sent), first);
  });

  it('what surrounds a request ends once, though its response may never close', async () => {
    const before = ended.count;
    await send(request('/required/json'));
    await send(request('/required/json'));
    await ended.reached(before + 2);
    expect(ended.count).toBe(surroundings.count);
  });

  it('a name in another case is the same field', async () => {
    const { 'idempotency-key': key = '', ...headers } = request('').headers;
    const sent = {
      path: '/required/json',
      headers: { ...headers, 'IDEMPOTENCY-Key': key },
      body: '{}',
    };
    const first = await send(sent);
    expectReplay(await send(sent), first);
    expect(scenario.executions).toBe(1);
  });

  it('a missing key is refused', async () => {
    const { 'idempotency-key': _, ...headers } = request('').headers;
    expectRejection(await send({ path: '/required/json', headers, body: '{}' }), 'key-missing');
    expect(scenario.executions).toBe(0);
  });

  // serverless-http passes on the last line alone.
  const shows = repeats === 'dropped' ? it.skip : it;
  shows('a key that was sent twice is refused', async () => {
    for (const keys of [
      ['key-1', 'key-1'],
      ['"key-1"', '"key-2"'],
    ]) {
      expectRejection(await send(request('/required/json', keys)), 'key-invalid');
      expectRejection(await send(request('/optional/json', keys)), 'key-invalid');
    }
    expect(scenario.executions).toBe(0);
  });
});
