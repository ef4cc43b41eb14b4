import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Body, Controller, Post } from '@nestjs/common';
import {
  EXPOSED_HEADERS,
  Idempotent,
  StoreUnavailableError,
  type BeginReply,
} from 'nestjs-idempotency';
import { MemoryIdempotencyStore, memoryStore } from 'nestjs-idempotency/memory';
import { platforms } from '../../support/http/combinations.js';
import type { RawResponse } from '../../support/http/raw-response.js';
import { InScenario, Scenario } from '../../support/http/scenario.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';

const origin = 'https://shop.example.com';

@Controller()
class ShopController {
  @Post('orders')
  @Idempotent()
  async order(@InScenario() scenario: Scenario, @Body() _: unknown) {
    return { order: await scenario.run() };
  }

  @Post('unprotected')
  @Idempotent({ onStoreUnavailable: 'execute' })
  async unprotected(@InScenario() scenario: Scenario) {
    return { order: await scenario.run() };
  }
}

/** Nobody answers. */
class SilentStore extends MemoryIdempotencyStore {
  override begin(): Promise<BeginReply> {
    return Promise.reject(new StoreUnavailableError('planned'));
  }
}

/** What a script on another origin may read of an answer (Fetch standard, CORS-safelisted names left out). */
function visible(answer: RawResponse, name: string): string | undefined {
  expect(answer.header('access-control-allow-origin')).toMatch(
    /^(\*|https:\/\/shop\.example\.com)$/,
  );
  const exposed = answer.header('access-control-expose-headers')?.toLowerCase().split(/, */) ?? [];
  return exposed.includes(name.toLowerCase()) ? answer.header(name) : undefined;
}

describe.each(platforms)('EXPOSED_HEADERS on %s', (platform) => {
  let app: TestApp;
  let deaf: TestApp;

  beforeAll(async () => {
    const start = {
      platform,
      controllers: [ShopController],
      configure: (nest: TestApp['nest']) =>
        nest.enableCors({ exposedHeaders: [...EXPOSED_HEADERS] }),
    };
    app = await startApp({ ...start, store: memoryStore() });
    deaf = await startApp({ ...start, store: new SilentStore() });
  });
  afterAll(() => Promise.all([app.close(), deaf.close()]));

  const headers = [['Origin', origin]] as const;

  it('show a page on another origin the marker of a replay, and Retry-After', async () => {
    const scenario = app.scenario();
    scenario.gate.close();
    const pending = scenario.start('POST', '/orders', { headers });
    await scenario.started.reached(1);
    const duplicate = await scenario.post('/orders', { headers });
    expect(duplicate.status).toBe(409);
    expect(visible(duplicate, 'Retry-After')).toBe('1');
    scenario.gate.open();

    const first = await pending.response;
    expect([first.status, visible(first, 'Idempotent-Replayed')]).toEqual([201, undefined]);
    const replay = await scenario.post('/orders', { headers });
    expect([replay.status, visible(replay, 'Idempotent-Replayed')]).toEqual([201, 'true']);
  });

  it('show it that the store is away, and that a run was not protected', async () => {
    const refused = await deaf.scenario().post('/orders', { headers });
    expect([refused.status, visible(refused, 'Retry-After')]).toEqual([503, '1']);
    const run = await deaf.scenario().post('/unprotected', { headers });
    expect([run.status, visible(run, 'Idempotency-Status')]).toEqual([201, 'unprotected']);
  });

  it('let the key through the preflight', async () => {
    const preflight = await app.scenario().send('OPTIONS', '/orders', {
      key: null,
      as: null,
      headers: [
        ...headers,
        ['Access-Control-Request-Method', 'POST'],
        ['Access-Control-Request-Headers', 'authorization,content-type,idempotency-key'],
      ],
    });
    expect(preflight.status).toBe(204);
    expect(preflight.header('access-control-allow-headers')).toContain('idempotency-key');
  });
});
