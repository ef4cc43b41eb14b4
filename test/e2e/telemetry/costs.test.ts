import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Controller, Post } from '@nestjs/common';
import { AlwaysOffSampler } from '@opentelemetry/sdk-trace-node';
import { Idempotent, type IdempotencyModuleOptions } from 'nestjs-idempotency';
import { openTelemetry } from 'nestjs-idempotency/opentelemetry';
import { redisStore } from 'nestjs-idempotency/redis';
import { platforms } from '../../support/http/combinations.js';
import { InScenario, type Scenario } from '../../support/http/scenario.js';
import { startApp } from '../../support/http/start-app.js';
import { SentCommands } from '../../support/redis/sent-commands.js';
import { useRedis, useRedisClient } from '../../support/redis/use-redis.js';
import { TestSdk, traceRequests } from '../../support/telemetry/test-sdk.js';

/** A space, and 34 characters. */
const NOTE_BYTES = 35;

@Controller()
class Payments {
  @Post('payments')
  @Idempotent()
  create(@InScenario() scenario: Scenario) {
    return scenario.response();
  }
}

const redis = useRedis();
const client = useRedisClient(redis);

describe.each(platforms)('on %s', (platform) => {
  let sdk: TestSdk;
  beforeEach(async () => {
    sdk = TestSdk.start();
    await client.flushdb();
  });
  afterEach(() => sdk.stop());

  const start = (telemetry: IdempotencyModuleOptions['telemetry']) =>
    startApp({
      platform,
      store: redisStore({ url: redis.url, push: false }),
      controllers: [Payments],
      options: { ...(telemetry && { telemetry }) },
      configure: traceRequests,
    });

  it('with everything on, the store sends as many commands as without', async () => {
    const app = await start(openTelemetry({ spans: 'always' }));
    const commands = await SentCommands.to(redis);
    try {
      const warm = app.scenario();
      await warm.post('/payments');
      const scenario = app.scenario();
      scenario.gate.close();
      let running: Promise<unknown> | undefined;
      const sent = await commands.during(async () => {
        running = scenario.post('/payments');
        await scenario.started.reached(1);
      });
      expect(sent).toEqual(['evalsha']);
      const post = (json: object) => () => scenario.post('/payments', { json });
      expect(await commands.during(() => scenario.post('/payments'))).toEqual(['evalsha']);
      expect(await commands.during(post({ other: true }))).toEqual(['evalsha']);
      const saved = await commands.during(async () => {
        scenario.gate.open();
        await running;
      });
      expect(saved).toEqual(['evalsha']);
      expect(await commands.during(() => scenario.post('/payments'))).toEqual(['evalsha']);
    } finally {
      commands.stop();
      await app.close();
    }
  });

  /** The length of a finished record. */
  async function recordBytes(telemetry: IdempotencyModuleOptions['telemetry']): Promise<number> {
    await client.flushdb();
    const app = await start(telemetry);
    try {
      await app.scenario().post('/payments');
    } finally {
      await app.close();
    }
    const [name = ''] = await client.keys('*');
    return client.strlen(name);
  }

  it('a record has the trace of a sampled execution, and without links it is not a byte larger', async () => {
    const without = await recordBytes(undefined);
    expect(await recordBytes(openTelemetry())).toBe(without + NOTE_BYTES);
    expect(await recordBytes(openTelemetry({ links: false }))).toBe(without);
    expect(await recordBytes(openTelemetry({ spans: false }))).toBe(without);
    await sdk.stop();
    expect(await recordBytes(openTelemetry())).toBe(without);
    sdk = TestSdk.start(new AlwaysOffSampler());
    expect(await recordBytes(openTelemetry())).toBe(without);
  });
});
