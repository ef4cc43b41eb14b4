import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { redisStore } from 'nestjs-idempotency/redis';
import { expectReplay } from '../../test/support/http/expectations.js';
import { startApp, type TestApp } from '../../test/support/http/start-app.js';
import { useRedis } from '../../test/support/redis/use-redis.js';
import { PaymentProvider, PROVIDER_URL } from './payment-provider.js';
import { PaymentsController } from './payments.controller.js';
import { ProviderServer } from './provider-server.js';

const redis = useRedis();
const payment = { card: '4242', amount: 4999 };
let provider: ProviderServer;

beforeEach(async () => {
  provider = await ProviderServer.start();
});
afterEach(() => {
  provider.stop();
});

describe('A payment', () => {
  let app: TestApp;
  beforeEach(async () => {
    app = await startApp({
      platform: 'express',
      controllers: [PaymentsController],
      providers: [PaymentProvider, { provide: PROVIDER_URL, useValue: provider.url }],
      store: redisStore({ url: redis.url }),
    });
  });
  afterEach(() => app.close());

  it('is charged once, and its response is replayed', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/payments', { json: payment });
    expectReplay(await scenario.post('/payments', { json: payment }), first);
    expect(first).toMatchObject({ status: 201, json: provider.ledger[0]! });
    expect([provider.ledger.length, provider.asked.length]).toEqual([1, 1]);
  });

  it('with a declined card is not sent to the provider again', async () => {
    provider.plan = ['decline'];
    const scenario = app.scenario();
    const first = await scenario.post('/payments', { json: payment });
    expect(first).toMatchObject({ status: 402, json: { code: 'card_declined' } });
    expectReplay(await scenario.post('/payments', { json: payment }), first);
    expect([provider.ledger.length, provider.asked.length]).toEqual([0, 1]);
  });

  it.each(['fail', 'cut'] as const)(
    'that the provider answers by "%s" is sent again with the same key, and charged once',
    async (plan) => {
      provider.plan = [plan];
      const scenario = app.scenario();
      expect(await scenario.post('/payments', { json: payment })).toMatchObject({ status: 502 });
      const second = await scenario.post('/payments', { json: payment });
      expect(second).toMatchObject({ status: 201, replayed: false });
      expect([provider.ledger.length, provider.asked.length]).toEqual([1, 2]);
      expect(new Set(provider.asked).size).toBe(1);
    },
  );

  it('of another caller has another key at the provider', async () => {
    const scenario = app.scenario();
    for (const as of ['alice', 'bob']) await scenario.post('/payments', { json: payment, as });
    expect(new Set(provider.asked).size).toBe(2);
    expect(provider.ledger).toHaveLength(2);
  });
});
