import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Idempotent } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';
import { loadPackage } from '../../../lab/bench/http/load-package.js';
import { ensureInstalled, PEERS } from '../../../lab/bench/install.js';
import { callingApp, type CallingApp } from '../../../test/support/nest/calling-app.js';
import { useRedis, useRedisClient } from '../../../test/support/redis/use-redis.js';
import { until } from '../../../test/support/waiting/until.js';
import { Ledger, LEDGER, type Payment } from '../ledger.js';
import { AMOUNT } from '../switch.js';
import { OLD_REDIS, powertoolsRecord } from './legacy-powertools.js';
import { Payments } from './payments.service.js';

type Pay = (payment: Payment) => Promise<unknown>;

/** The parts of Powertools that a function uses. */
interface Powertools {
  readonly makeIdempotent: (pay: Pay, options: object) => Pay;
  readonly IdempotencyConfig: new (options: object) => {
    registerLambdaContext(context: object): void;
  };
}

interface RedisClient {
  connect(): Promise<unknown>;
  destroy(): void;
}

@Injectable()
class MistakenPayments {
  constructor(private readonly ledger: Ledger) {}

  @Idempotent({
    key: ({ order }: Payment) => order,
    lease: { onTakeover: powertoolsRecord('payments'), recoverOn: 'takeover' },
  })
  pay(payment: Payment) {
    return this.ledger.charge(payment);
  }
}

describe('from Powertools for AWS Lambda, on Redis', () => {
  const server = useRedis();
  const redis = useRedisClient(server);
  let app: CallingApp;
  let client: RedisClient;
  let before: Pay;

  const after: Pay = (payment) => app.nest.get(Payments).pay(payment);
  const charges = async (order: string) => Number(await redis.get(`charges:${order}`));

  beforeAll(async () => {
    await ensureInstalled(PEERS);
    app = await callingApp(
      {
        providers: [
          ...[Ledger, Payments, MistakenPayments],
          ...[LEDGER, OLD_REDIS].map((provide) => ({ provide, useValue: redis })),
        ],
      },
      { store: redisStore({ url: server.url }), caller: { anonymous: 'shared' } },
    );
    const { createClient } = loadPackage('@redis/client') as {
      readonly createClient: (options: object) => RedisClient;
    };
    client = createClient({ url: server.url });
    await client.connect();
    const { makeIdempotent, IdempotencyConfig } = loadPackage(
      '@aws-lambda-powertools/idempotency',
    ) as Powertools;
    const { CachePersistenceLayer } = loadPackage('@aws-lambda-powertools/idempotency/cache') as {
      CachePersistenceLayer: new (options: object) => object;
    };
    const config = new IdempotencyConfig({ eventKeyJmesPath: 'order' });
    // Without a deadline, the old package takes every record in progress for an orphan.
    config.registerLambdaContext({ getRemainingTimeInMillis: () => 60_000 });
    const ledger = app.nest.get(Ledger);
    before = makeIdempotent((payment) => ledger.charge(payment), {
      persistenceStore: new CachePersistenceLayer({ client }),
      keyPrefix: 'payments',
      config,
    });
  }, 300_000);
  afterAll(async () => {
    client.destroy();
    await app.nest.close();
  });

  it('returns after the switch what ran before it: one charge', async () => {
    const payment = { order: randomUUID(), amount: AMOUNT.charged };
    const first = await before(payment);
    expect(first).toEqual({ charge: `${payment.order}/1` });
    expect(await before(payment)).toEqual(first);
    expect(await after(payment)).toEqual(first);
    expect(await after(payment)).toEqual(first);
    expect(await charges(payment.order)).toBe(1);
  });

  it("charges twice with the planted mistake recoverOn: 'takeover'", async () => {
    const payment = { order: randomUUID(), amount: AMOUNT.charged };
    await before(payment);
    await app.nest.get(MistakenPayments).pay(payment);
    expect(await charges(payment.order)).toBe(2);
  });

  it('charges once while both run, whichever is first', async () => {
    const payment = { order: randomUUID(), amount: AMOUNT.charged };
    const first = await after(payment);
    await expect(before(payment)).rejects.toThrow('already an execution in progress');
    expect(await after(payment)).toEqual(first);
    expect(await charges(payment.order)).toBe(1);
  });

  it('charges once for ten calls of both at once', async () => {
    const payment = { order: randomUUID(), amount: AMOUNT.charged };
    const calls = Array.from({ length: 10 }, (_, call) => (call % 2 ? before : after)(payment));
    const ended = await Promise.allSettled(calls);
    expect(ended.some(({ status }) => status === 'fulfilled')).toBe(true);
    expect(await charges(payment.order)).toBe(1);
  });

  it('rejects a call that the old function has not ended, and returns its result then', async () => {
    const payment = { order: randomUUID(), amount: AMOUNT.held };
    const running = before(payment);
    await until(async () => (await charges(payment.order)) === 1);
    await expect(after(payment)).rejects.toThrow('in progress');
    await redis.rpush(`open:${payment.order}`, 1);
    const first = await running;
    expect(await after(payment)).toEqual(first);
    expect(await charges(payment.order)).toBe(1);
  });
});
