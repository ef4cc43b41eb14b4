import { Controller, Post, type CallHandler, type INestApplication } from '@nestjs/common';
import { describe, expect, it, jest } from '@jest/globals';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Idempotent } from 'nestjs-idempotency';
import { IdempotencyInterceptor } from '../../../support/internals/nest.js';
import { lastValueFrom } from 'rxjs';
import { platforms } from '../../../support/http/combinations.js';
import { expectReplay } from '../../../support/http/expect-replay.js';
import { InScenario, Scenario } from '../../../support/http/scenario.js';
import { startApp } from '../../../support/http/start-app.js';
import { slowStore } from '../../../support/stores/slow-store.js';
import { useServer } from '../../../support/servers/use-server.js';

const SEALED_HEADER = 'x-sealed-response';

@Controller()
class PlainController {
  @Post('plain')
  @Idempotent()
  async plain(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
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
});
