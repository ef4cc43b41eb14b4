import { randomUUID } from 'node:crypto';
import { Test } from '@nestjs/testing';
import { afterAll, beforeAll, expect } from '@jest/globals';
import { IdempotencyModule, IdempotencyService } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';
import { until } from '../../integration/redis/support/until.js';
import { Gate } from '../../support/http/gate.js';
import { RedisProxy } from '../../support/redis-proxy.js';
import { itWithClock } from '../../support/server-clock/server-clock.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { DrivenTime } from './support/driven-time.js';

const LEASE_MS = 30_000;

let time: DrivenTime;
let redis: RedisServer;
let proxy: RedisProxy;

beforeAll(async () => {
  time = new DrivenTime();
  redis = await startRedis({ env: time.env });
  proxy = await RedisProxy.start(redis.port);
  time.start();
});
afterAll(async () => {
  time.stop();
  await proxy.stop();
  await redis.stop();
  time.remove();
});

/** An application of its own, on this way to Redis. */
async function serviceAt(url: string) {
  const store = redisStore({
    url,
    onConnectionError: () => undefined,
    connection: { socketTimeout: 300 },
  });
  const options = { store, commandTimeoutMs: 5_000, saveTimeoutMs: 10_000 };
  const app = await Test.createTestingModule({
    imports: [IdempotencyModule.forRoot(options)],
  }).compile();
  await app.init();
  return { app, service: app.get(IdempotencyService, { strict: false }) };
}

itWithClock(
  'A worker that dies after its effect leaves a key to a recovery, which finds the outcome in the business data',
  async () => {
    const [first, second] = [await serviceAt(proxy.url), await serviceAt(redis.url)];
    const payments: { key: string; id: string }[] = [];
    const key = randomUUID();
    const call = {
      operation: 'pay',
      scope: 'alice',
      key,
      leaseMs: LEASE_MS,
      onTakeover: (context: { key: string }) => {
        const value = payments.find((payment) => payment.key === context.key);
        return value === undefined ? ('run' as const) : { value };
      },
    };
    const pay = () => {
      const payment = { key, id: randomUUID() };
      payments.push(payment);
      return payment;
    };
    const gate = new Gate();
    gate.close();
    const begun = first.service.run(call, async () => {
      const payment = pay();
      proxy.swallowEverything();
      await gate.pass();
      return payment;
    });

    await until(() => payments.length === 1);
    await time.pass(LEASE_MS);
    const found = await second.service.run(call, pay);

    expect(payments).toEqual([found]);
    expect(await second.service.run(call, pay)).toEqual(found);
    proxy.heal();
    gate.open();
    expect(await begun).toEqual(found);
    expect(payments).toHaveLength(1);
    await first.app.close();
    await second.app.close();
  },
);
