import { afterEach, describe, expect, it } from '@jest/globals';
import { Controller, Post } from '@nestjs/common';
import {
  type IdempotencyContext,
  IdempotencyReconciler,
  IdempotencyService,
  Idempotent,
  type IdempotencyStore,
  type Recovery,
} from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';
import { DelegatingStore } from 'nestjs-idempotency/store';
import { abandon, LEASE_MS, recordOf } from '../../../support/engine/abandon.js';
import { ALICE } from '../../../support/http/callers.guard.js';
import { startApp, type TestApp } from '../../../support/http/start-app.js';
import { useRedis } from '../../../support/redis/use-redis.js';

/** Writes records without a name, as no store of several services does. */
class Unnamed extends DelegatingStore {
  override get isShared(): boolean {
    return false;
  }
}

/** Two services have classes and methods of equal names, and one Redis. */
describe('Two services on one Redis', () => {
  const redis = useRedis();
  const apps: TestApp[] = [];
  let done: Map<string, unknown>;

  afterEach(async () => {
    for (const app of apps.splice(0)) await app.close();
  });

  async function start(
    service: string | undefined,
    answer = service,
    store: IdempotencyStore = redisStore({ url: redis.url }),
  ) {
    done = new Map();
    const found = ({ key }: IdempotencyContext): Recovery =>
      done.has(key) ? { value: done.get(key) } : 'run';

    @Controller()
    class OrdersController {
      executions = 0;

      @Post('orders')
      @Idempotent()
      create() {
        this.executions += 1;
        return { answer };
      }

      @Post('cut-over')
      @Idempotent({ lease: { onTakeover: found, recoverOn: 'always' } })
      cutOver() {
        this.executions += 1;
        return { answer };
      }
    }

    const app = await startApp({
      platform: 'express',
      controllers: [OrdersController],
      store,
      guard: ALICE,
      options: { ...(service !== undefined && { service }), reconcile: { after: 0 } },
    });
    apps.push(app);
    const send = async (path: string, key: string) => {
      const headers = { 'idempotency-key': key };
      const response = await fetch(`http://127.0.0.1:${app.port}/${path}`, {
        method: 'POST',
        headers,
      });
      const isReplayed = response.headers.get('idempotent-replayed') === 'true';
      return { status: response.status, isReplayed, body: await response.json() };
    };
    return { app, send, controller: app.nest.get(OrdersController) };
  }

  it('never share a record: the other one runs, and each replays its own', async () => {
    const [billing, shipping] = [await start('billing'), await start('shipping')];
    const first = { status: 201, isReplayed: false };
    expect(await billing.send('orders', 'k1')).toEqual({ ...first, body: { answer: 'billing' } });
    expect(await shipping.send('orders', 'k1')).toEqual({ ...first, body: { answer: 'shipping' } });
    for (const [{ send, controller }, answer] of [
      [billing, 'billing'],
      [shipping, 'shipping'],
    ] as const) {
      const replay = await send('orders', 'k1');
      expect(replay).toEqual({ status: 201, isReplayed: true, body: { answer } });
      expect(controller.executions).toBe(1);
    }
  });

  it('are one service with equal names, on all its processes', async () => {
    const [one, other] = [await start('billing', 'one'), await start('billing', 'other')];
    await one.send('orders', 'k3');
    const { isReplayed, body } = await other.send('orders', 'k3');
    expect([isReplayed, body]).toEqual([true, { answer: 'one' }]);
  });

  it('have records of their own for calls, too', async () => {
    const [billing, shipping] = [await start('billing'), await start('shipping')];
    const call = (app: TestApp, value: string) =>
      app.nest
        .get(IdempotencyService, { strict: false })
        .run({ operation: 'invoice.send', key: 'k4', scope: ['alice'] }, () => ({ value }));
    expect(await call(billing.app, 'billed')).toEqual({ value: 'billed' });
    expect(await call(shipping.app, 'shipped')).toEqual({ value: 'shipped' });
    expect(await call(billing.app, 'again')).toEqual({ value: 'billed' });
  });

  it('recover their own abandoned records, and leave those of the other one', async () => {
    const { app } = await start('billing');
    const reconciler = app.nest.get(IdempotencyReconciler, { strict: false });
    let lookedUp = 0;
    const onTakeover = (): Recovery => {
      lookedUp += 1;
      return { value: 'done' };
    };
    reconciler.register('settle', { lease: { onTakeover, duration: LEASE_MS } });
    const store = redisStore({ url: redis.url });
    await store.open({ replyMismatched: () => undefined, warned: () => undefined });
    try {
      const own = await abandon(store, 'settle', 'own', 1, { service: 'billing' });
      const others = await abandon(store, 'settle', 'other', 1, { service: 'shipping' });
      const unnamed = await abandon(store, 'settle', 'unnamed', 1, {});
      // Until the leases are over by the server's clock.
      await new Promise((resolve) => setTimeout(resolve, 20));
      expect(await reconciler.reconcile()).toMatchObject({ completed: 1, unknown: 2 });
      expect(lookedUp).toBe(1);
      expect((await recordOf(store, own))?.state).toBe('completed');
      expect((await recordOf(store, others))?.state).toBe('in_progress');
      expect((await recordOf(store, unnamed))?.state).toBe('in_progress');
    } finally {
      await store.close();
    }
  });

  it.each([
    ['no name', undefined],
    ['another name', 'invoicing'],
  ])(
    'may change from %s: with recoverOn, an open retry is looked up and not run again',
    async (_, earlier) => {
      const key = `from-${String(earlier)}`;
      const before = await start(earlier, 'before', new Unnamed(redisStore({ url: redis.url })));
      expect(await before.send('cut-over', key)).toMatchObject({ status: 201 });
      const after = await start('billing', 'after');
      done.set(key, { answer: 'before' });
      const lookedUp = { isReplayed: false, body: { answer: 'before' } };
      expect(await after.send('cut-over', key)).toMatchObject(lookedUp);
      expect(after.controller.executions).toBe(0);
      // It has a record of its own name now.
      expect(await after.send('cut-over', key)).toMatchObject({ ...lookedUp, isReplayed: true });
      const other = `not-${key}`;
      expect(await after.send('cut-over', other)).toMatchObject({ body: { answer: 'after' } });
    },
  );
});
