import { Controller, Post } from '@nestjs/common';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { IdempotencyEvents, Idempotent, type IdempotencyEvent } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';
import { until } from '../../../support/waiting/until.js';
import { FaultyStore } from '../../../support/stores/faulty-store.js';
import { platforms } from '../../../support/http/combinations.js';
import { expectProblem, expectReplay } from '../../../support/http/expectations.js';
import { InScenario, Scenario } from '../../../support/http/scenario.js';
import { startApp } from '../../../support/http/start-app.js';
import { RedisNode } from '../../../support/redis/redis-node.js';
import { useServer } from '../../../support/servers/use-server.js';

@Controller()
class GuardedController {
  @Post('things')
  @Idempotent()
  create(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('strictly-saved')
  @Idempotent({ storeErrors: { whenNotSaved: 'error' } })
  strictlySaved(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('fail-open')
  @Idempotent({ storeErrors: { whenUnavailable: 'execute' } })
  failOpen(@InScenario() scenario: Scenario) {
    return scenario.response();
  }
}

/** Opens after a few failures, however many requests succeeded shortly before. */
const BREAKER = { errorThresholdPercentage: 10, volumeThreshold: 3, probeIntervalMs: 100 };

describe.each(platforms)('the circuit breaker on %s, with a killed Redis', (platform) => {
  const redis = useServer(() => RedisNode.down());
  /** Counts the commands that pass the breaker. */
  let store: FaultyStore;
  const app = useServer(() => {
    store = new FaultyStore(redisStore({ url: redis.url, onConnectionError: () => undefined }));
    return startApp({
      platform,
      store,
      controllers: [GuardedController],
      options: {
        breaker: BREAKER,
        storeErrors: { commandTimeoutMs: 1_000 },
        lease: { durationMs: 30_000 },
      },
    });
  });
  const events: IdempotencyEvent[] = [];
  const reported = () => events.map(({ type }) => type);

  beforeAll(() => {
    app.nest.get(IdempotencyEvents).subscribe((event) => void events.push(event), {
      replacesLog: true,
    });
  });

  async function up(): Promise<void> {
    await redis.kill();
    await redis.start();
    await until(async () => (await app.scenario().post('/things')).status === 201);
    events.length = 0;
  }

  /** Kills the server, and sends as many requests as the breaker needs to open. */
  async function down(): Promise<void> {
    await redis.kill();
    const requests = Array.from({ length: BREAKER.volumeThreshold }, () =>
      app.scenario().post('/things'),
    );
    for (const response of await Promise.all(requests))
      expectProblem(response, 'store-unavailable');
    expect(reported()).toContain('breaker_opened');
  }

  const untilClosed = () => until(() => reported().includes('breaker_closed'));

  it('responds with 503 and Retry-After while open, without calling handler or store, and closes after the probe [P39]', async () => {
    await up();
    await down();
    const begins = store.sentOf('begin').length;
    const scenario = app.scenario();
    for (let time = 0; time < 10; time += 1) {
      expectProblem(await scenario.post('/things'), 'store-unavailable');
    }
    expect(scenario.executions).toBe(0);
    expect(store.sentOf('begin')).toHaveLength(begins);
    await redis.start();
    await untilClosed();
    const first = await scenario.post('/things');
    expect(first).toMatchObject({ status: 201, replayed: false, json: { execution: 1 } });
    expectReplay(await scenario.post('/things'), first);
    expect(scenario.executions).toBe(1);
  });

  it('marks a fail-open response as unprotected while open, and saves it once the store is back', async () => {
    await up();
    await down();
    const scenario = app.scenario();
    const first = await scenario.post('/fail-open');
    expect(first).toMatchObject({ status: 201, json: { execution: 1 } });
    expect(first.header('idempotency-status')).toBe('unprotected');
    const [unprotected] = events.filter(({ type }) => type === 'unprotected');
    expect(unprotected).toMatchObject({ fencingToken: 0 });
    await redis.start();
    await until(() =>
      events.some(
        (event) => event.type === 'completed' && event.recordKey === unprotected?.recordKey,
      ),
    );
    await untilClosed();
    const second = await scenario.post('/fail-open');
    expect(second).toMatchObject({ status: 201, replayed: true, json: { execution: 1 } });
    expect(second.header('idempotency-status')).toBeUndefined();
    expect(scenario.executions).toBe(1);
  });

  it('completes an attempt that was running when the store went down, although the circuit is open', async () => {
    await up();
    const scenario = app.scenario();
    scenario.gate.close();
    const pending = scenario.start('POST', '/strictly-saved');
    await scenario.started.reached(1);
    await down();
    scenario.gate.open();
    expectProblem(await pending.response, 'store-unavailable');
    await redis.start();
    await until(() => events.some(({ type }) => type === 'completed'));
    await untilClosed();
    const second = await scenario.post('/strictly-saved');
    expect(second).toMatchObject({ status: 201, replayed: true, json: { execution: 1 } });
    expect(scenario.executions).toBe(1);
  });
});
