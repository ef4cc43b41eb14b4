import { beforeEach, describe, expect, it } from '@jest/globals';
import type { IdempotencyModuleOptions } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { platforms, type Platform } from '../../test/support/http/combinations.js';
import { startApp } from '../../test/support/http/start-app.js';
import { RawHost } from './raw-host.js';
import { useServer } from '../../test/support/servers/use-server.js';
import { BearerGuard, post } from '../support/http-client.js';
import { OrdersController, TenantHostController } from './orders.controller.js';
import { Orders } from './orders.js';
import { scopeByContext } from './scopes.js';

const start = (platform: Platform, caller: IdempotencyModuleOptions['caller'] = {}) =>
  startApp({
    platform,

    controllers: [TenantHostController, OrdersController],
    providers: [Orders],
    store: memoryStore(),
    options: { caller },
    guard: new BearerGuard(),
  });

describe.each(platforms)('Several tenants on %s', (platform) => {
  const app = useServer(() => start(platform, { scope: scopeByContext }));
  const placed = () => app.nest.get(Orders).placed;
  beforeEach(() => void placed().splice(0));

  const send = (path: string, tenant: string, id: string, key: string, item = 'book') =>
    post(app.port, path, { key, as: { tenant, id }, json: { item } });

  it('with tenant and user as scope, run an equal key of equal users once each', async () => {
    for (const tenant of ['acme', 'beta', 'acme']) {
      expect(await send('/orders', tenant, '1', 'same')).toMatchObject({ body: { tenant } });
    }
    expect(placed()).toEqual(['acme: book', 'beta: book']);
    expect(await send('/orders', 'acme', '2', 'same')).toMatchObject({ replayed: false });
  });

  it('with parts as scope, do not meet where the parts together are the same text', async () => {
    await send('/orders', 'a', 'bc', 'parts');
    await send('/orders', 'ab', 'c', 'parts');
    expect(placed()).toEqual(['a: book', 'ab: book']);
  });

  it('with the tenant alone as scope, share a key between its users', async () => {
    expect(await send('/orders/imports', 'acme', '1', 'nightly')).toMatchObject({ status: 201 });
    const retry = await send('/orders/imports', 'acme', '2', 'nightly');
    expect(retry).toMatchObject({ status: 201, replayed: true });
    expect(await send('/orders/imports', 'beta', '1', 'nightly')).toMatchObject({
      replayed: false,
    });
    expect(placed()).toEqual(['acme: book', 'beta: book']);
  });

  it('on hosts of their own, are rejected on the host of another one', async () => {
    const hosts = new RawHost(app.port);
    const sent = { key: 'host', as: { tenant: 'acme', id: '1' }, json: { item: 'pen' } };
    expect(await hosts.post('acme.shop.test', '/shop-orders', sent)).toBe(201);
    expect(await hosts.post('acme.shop.test', '/shop-orders', sent)).toBe(201);
    expect(await hosts.post('beta.shop.test', '/shop-orders', { ...sent, key: 'other' })).toBe(403);
    expect(placed()).toEqual(['acme: pen']);
  });
});

describe('The default scope, the id of the user alone', () => {
  const app = useServer(() => start('express'));

  it('replays the response of one tenant to another whose user has the same id', async () => {
    const sent = { key: 'same', json: { item: 'book' } };
    await post(app.port, '/orders', { ...sent, as: { tenant: 'acme', id: '1' } });
    const other = await post(app.port, '/orders', { ...sent, as: { tenant: 'beta', id: '1' } });
    expect(other).toMatchObject({ replayed: true, body: { tenant: 'acme' } });
    expect(app.nest.get(Orders).placed).toEqual(['acme: book']);
  });
});
