import { createServer, type Server } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { Controller, Post } from '@nestjs/common';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Idempotent, requireIdempotencyContext } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';
import { Redis } from 'ioredis';
import { platforms } from '../../../support/http/combinations.js';
import { InScenario, Scenario } from '../../../support/http/scenario.js';
import { startApp, type TestApp } from '../../../support/http/start-app.js';
import { DrivenClock } from '../../../support/internals/testing.js';
import { useRedis } from '../../../support/redis/use-redis.js';

const LEASE_MS = 30_000;

/** A provider that accepts a request and never responds. */
let provider: Server;
let providerUrl: string;
const redis = useRedis();

beforeAll(async () => {
  provider = createServer((request) => request.resume()).listen(0, '127.0.0.1');
  await once(provider, 'listening');
  providerUrl = `http://127.0.0.1:${String((provider.address() as AddressInfo).port)}`;
});
afterAll(async () => {
  provider.closeAllConnections();
  provider.close();
});

@Controller()
class ProviderController {
  @Post('pay')
  @Idempotent({ lease: { durationMs: LEASE_MS }, duplicates: { timeoutMs: 1 } })
  async pay(@InScenario() scenario: Scenario) {
    scenario.started.add();
    const { signal } = requireIdempotencyContext();
    try {
      await fetch(providerUrl, { method: 'POST', signal });
    } catch {
      scenario.notes.push(signal.reason);
    }
    return { reason: String(signal.reason) };
  }
}

describe.each(platforms)('the signal of an attempt on %s', (platform) => {
  const clock = new DrivenClock();
  let app: TestApp;
  let observer: Redis;

  beforeAll(async () => {
    observer = new Redis(redis.url);
    const store = redisStore({ url: redis.url, keyPrefix: platform });
    app = await startApp({
      platform,
      store,
      clock,
      controllers: [ProviderController],
      options: { storeErrors: { commandTimeoutMs: 5_000, saveTimeoutMs: 5_000 } },
    });
  });
  afterAll(async () => {
    observer.disconnect();
    await app.close();
  });

  it('aborts a fetch once the attempt has lost its record [P38]', async () => {
    const scenario = app.scenario();
    const pending = scenario.start('POST', '/pay');
    await scenario.started.reached(1);
    // The next heartbeat finds the record gone.
    const keys = await observer.keys(`${platform}:1:*`);
    expect(keys).toHaveLength(1);
    await observer.del(keys);
    await clock.advance(LEASE_MS / 3);
    expect(await pending.response).toMatchObject({ status: 201, json: { reason: 'gone' } });
    expect(scenario.notes).toEqual(['gone']);
  });
});
