import { randomUUID } from 'node:crypto';
import { afterAll, beforeEach, describe, expect, it } from '@jest/globals';
import { memoryStore } from 'nestjs-idempotency/memory';
import { platforms } from '../../test/support/http/combinations.js';
import { startApp } from '../../test/support/http/start-app.js';
import { useServer } from '../../test/support/servers/use-server.js';
import { BearerGuard, post } from '../support/http-client.js';
import { cartToken } from './carts.js';
import { Shop } from './shop.js';
import { ShopController } from './shop.controller.js';

process.env.CART_SECRET = 'a secret of this test';
afterAll(() => {
  delete process.env.CART_SECRET;
});

describe.each(platforms)('A route without a user on %s', (platform) => {
  const app = useServer(() =>
    startApp({
      platform,
      controllers: [ShopController],
      providers: [Shop],
      store: memoryStore(),
      guard: new BearerGuard(),
    }),
  );
  const emails = () => app.nest.get(Shop).emails;
  beforeEach(() => void emails().splice(0));

  const json = { email: 'ann@example.com' };
  const inCart = (token: string, key: string) =>
    post(app.port, '/checkouts', { key, json, headers: { 'x-cart': token } });

  it('rejects requests by default', async () => {
    const { status, body } = await post(app.port, '/unknown', { key: randomUUID(), json });
    expect([status, body.code]).toEqual([400, 'idempotency_caller_unknown']);
    expect(emails()).toEqual([]);
  });

  it('keeps the keys of carts apart', async () => {
    const key = 'checkout-1';
    expect(await inCart(cartToken('a'), key)).toMatchObject({ body: { number: 1 } });
    expect(await inCart(cartToken('b'), key)).toMatchObject({ body: { number: 2 } });
    expect(await inCart(cartToken('a'), key)).toMatchObject({
      replayed: true,
      body: { number: 1 },
    });
    expect(emails()).toHaveLength(2);
  });

  it.each(['a', `a.${'A'.repeat(43)}`, cartToken('a').replace('a.', 'b.'), ''])(
    'rejects the cart %j, which the server did not sign',
    async (token) => {
      expect(await inCart(token, 'checkout-2')).toMatchObject({ status: 401 });
      expect(emails()).toEqual([]);
    },
  );

  it('shared by all, replays to each request that knows the key, and shows nothing of its sender', async () => {
    const key = randomUUID();
    const first = await post(app.port, '/contact', { key, json });
    const stranger = await post(app.port, '/contact', { key, json });
    expect(stranger).toMatchObject({ replayed: true, body: first.body });
    expect(JSON.stringify(stranger.body)).not.toContain('ann');
    expect(emails()).toHaveLength(1);
  });

  it.each(['1', '2026-11-28T10:00:00Z', 'contact-form'])(
    'shared by all, rejects a key that can be guessed: %j',
    async (key) => {
      const { status, body } = await post(app.port, '/contact', { key, json });
      expect([status, body.code]).toEqual([400, 'idempotency_key_invalid']);
      expect(emails()).toEqual([]);
    },
  );
});
