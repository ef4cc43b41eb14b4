import { Controller, Post, Res, StreamableFile, type INestApplication } from '@nestjs/common';
import { beforeEach, describe, expect, it } from '@jest/globals';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { expectReplay } from '../../../support/http/expectations.js';
import { type FastifyReply, takeRaw } from '../../../support/http/reply.js';
import { InScenario, Scenario } from '../../../support/http/scenario.js';
import { startApp } from '../../../support/http/start-app.js';
import { useServer } from '../../../support/servers/use-server.js';

interface HookedFastify {
  addHook(
    name: 'onSend',
    hook: (request: unknown, reply: unknown, payload: unknown) => Promise<unknown>,
  ): unknown;
  addHook(name: 'onRequest', hook: (request: unknown, reply: FastifyReply) => Promise<void>): void;
}

/** Like another framework that is given the response: it sets its own prototype on it. */
function respondElsewhere(_request: IncomingMessage | undefined, raw: ServerResponse): void {
  const own = Object.create(Object.getPrototypeOf(raw) as object) as object;
  Object.setPrototypeOf(raw, own);
  raw.statusCode = 201;
  raw.end('elsewhere');
}

@Controller()
class HookedController {
  @Post('plain')
  @Idempotent()
  async plain(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('at-once')
  @Idempotent()
  atOnce() {
    return { at: 'once' };
  }

  @Post('chunked')
  @Idempotent()
  chunked(@Res({ passthrough: true }) reply: FastifyReply) {
    reply.header('Transfer-Encoding', 'chunked');
    return 'all of it';
  }

  @Post('file')
  @Idempotent()
  file(@Res({ passthrough: true }) reply: FastifyReply) {
    reply.header('X-Own', 'kept');
    return new StreamableFile(Buffer.from('a file'), { type: 'text/csv' });
  }

  @Post('elsewhere')
  @Idempotent()
  async elsewhere(@InScenario() scenario: Scenario, @Res() reply: FastifyReply) {
    await scenario.run();
    respondElsewhere(undefined, takeRaw(reply));
  }

  @Post('unprotected')
  unprotected() {
    return { is: 'unprotected' };
  }
}

describe('on Fastify, with a synchronous store and asynchronous hooks', () => {
  let passed: string[] = [];
  let types: string[] = [];

  const app = useServer(() =>
    startApp({
      platform: 'fastify',
      store: memoryStore(),
      controllers: [HookedController],
      configure: (nest: INestApplication) => {
        const fastify = nest.getHttpAdapter().getInstance() as HookedFastify;
        fastify.addHook('onRequest', async (_, reply) => {
          // Wraps the method on the prototype of the response's class, as tracers do.
          const prototype = Object.getPrototypeOf(reply.raw) as ServerResponse;
          const end: unknown = Reflect.get(prototype, 'end');
          Object.setPrototypeOf(
            reply.raw,
            Object.create(prototype, {
              end: {
                configurable: true,
                writable: true,
                value(this: ServerResponse, ...args: unknown[]) {
                  return Reflect.apply(end as () => unknown, this, args);
                },
              },
            }) as object,
          );
        });
        fastify.addHook('onSend', async (_request, _reply, payload) => {
          passed.push(payload === undefined ? 'nothing' : 'a payload');
          types.push(typeof payload);
          await new Promise(setImmediate);
          return payload;
        });
      },
    }),
  );

  beforeEach(() => {
    passed = [];
    types = [];
  });

  it.each(['/plain', '/at-once', '/chunked'])(
    'sends the response of %s once and completely',
    async (path) => {
      const scenario = app.scenario();
      const first = await scenario.post(path);
      expect(first).toMatchObject({ status: 201, replayed: false });
      expect(first.text).toBe(
        { '/plain': '{"execution":1}', '/at-once': '{"at":"once"}' }[path] ?? 'all of it',
      );
      expect(passed).toEqual(['a payload']);
      const second = await scenario.post(path);
      expect(second).toMatchObject({ status: 201, replayed: true, text: first.text });
      expect(passed).toEqual(['a payload', 'a payload']);
    },
  );

  it.each(['/plain', '/file'])(
    'passes the payload of %s, first and replayed, to later hooks as a string',
    async (path) => {
      const scenario = app.scenario();
      const first = await scenario.post(path);
      expectReplay(await scenario.post(path), first);
      expect(types).toEqual(['string', 'string']);
    },
  );

  it('replays the header fields in their order', async () => {
    const scenario = app.scenario();
    const orders: string[][] = [];
    for (let request = 0; request < 2; request += 1) {
      const { lines } = await scenario.post('/file');
      const names = lines.map(([name]) => name.toLowerCase());
      orders.push(names.filter((name) => ['x-own', 'content-type'].includes(name)));
    }
    expect(orders).toEqual([
      ['x-own', 'content-type'],
      ['x-own', 'content-type'],
    ]);
  });

  it('records a response that another framework sends', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/elsewhere');
    expect(first).toMatchObject({ status: 201, text: 'elsewhere', replayed: false });
    expectReplay(await scenario.post('/elsewhere'), first);
    expect(scenario.executions).toBe(1);
  });

  it('leaves the response of an unprotected route unchanged', async () => {
    const response = await app.scenario().post('/unprotected');
    expect(response).toMatchObject({ status: 201, text: '{"is":"unprotected"}' });
  });
});
