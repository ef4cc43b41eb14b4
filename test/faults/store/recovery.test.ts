import { randomUUID } from 'node:crypto';
import { Test } from '@nestjs/testing';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { IdempotencyModule, IdempotencyService, OperationRejectedError } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';
import { until } from '../../integration/redis/support/until.js';
import { Gate } from '../../support/http/gate.js';
import { RedisProxy } from '../../support/redis-proxy.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';

const LEASE_MS = 500;

let redis: RedisServer;
let proxy: RedisProxy;

beforeAll(async () => {
  redis = await startRedis();
  proxy = await RedisProxy.start(redis.port);
});
afterAll(async () => {
  await proxy.stop();
  await redis.stop();
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

it('A worker that dies after its effect leaves a key to a recovery, which finds the outcome in the business data', async () => {
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
  const found = await insist(() => second.service.run(call, pay));

  expect(payments).toEqual([found]);
  expect(await second.service.run(call, pay)).toEqual(found);
  proxy.heal();
  gate.open();
  expect(await begun).toEqual(found);
  expect(payments).toHaveLength(1);
  await first.app.close();
  await second.app.close();
});

/** A client that comes back for as long as it is told to. */
async function insist<Value>(ask: () => Promise<Value>): Promise<Value> {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof OperationRejectedError && error.retryable)) throw error;
    }
  }
}
