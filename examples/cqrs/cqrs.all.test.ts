import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { CommandBus, CqrsModule, EventBus } from '@nestjs/cqrs';
import { memoryStore } from 'nestjs-idempotency/memory';
import { platforms } from '../../test/support/http/combinations.js';
import { startApp, type TestApp } from '../../test/support/http/start-app.js';
import { FaultyStore, unavailable } from '../../test/support/stores/faulty-store.js';
import { until } from '../../test/support/waiting/until.js';
import { OrdersController } from './orders.controller.js';
import { Orders, type PlacedOrder } from './orders.js';
import { PlaceOrder, PlaceOrderHandler } from './place-order.handler.js';
import { OrderPlaced, ShippingHandler } from './shipping.handler.js';
import { Shipping } from './shipping.js';

@Injectable()
class ListedOrders extends Orders {
  readonly inserted: PlacedOrder[] = [];

  override insert(_customer: string, items: readonly string[]): Promise<PlacedOrder> {
    const order = { id: randomUUID(), items };
    this.inserted.push(order);
    return Promise.resolve(order);
  }
}

@Injectable()
class ListedShipping extends Shipping {
  readonly prepared: string[] = [];

  override prepare(orderId: string): Promise<void> {
    this.prepared.push(orderId);
    return Promise.resolve();
  }
}

describe.each(platforms)('A command on %s', (platform) => {
  let app: TestApp;
  let store: FaultyStore;
  let inserted: readonly PlacedOrder[];
  const items = ['book'];

  beforeEach(async () => {
    store = new FaultyStore(memoryStore());
    app = await startApp({
      platform,
      imports: [CqrsModule.forRoot()],
      controllers: [OrdersController],
      providers: [
        PlaceOrderHandler,
        ShippingHandler,
        { provide: Orders, useClass: ListedOrders },
        { provide: Shipping, useClass: ListedShipping },
      ],
      store,
    });
    inserted = app.nest.get<ListedOrders>(Orders).inserted;
  });
  afterEach(() => app.close());

  it('runs once, from whichever entrance it comes', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/orders', { json: { items } });
    expect(first).toMatchObject({ status: 201, json: inserted[0]! });
    expect(await scenario.post('/orders', { json: { items } })).toMatchObject({
      status: 201,
      text: first.text,
    });
    const bus = app.nest.get(CommandBus);
    expect(await bus.execute(new PlaceOrder(scenario.key, 'alice', items))).toEqual(inserted[0]);
    expect(inserted).toHaveLength(1);
    await bus.execute(new PlaceOrder(scenario.key, 'bob', items));
    expect(inserted).toHaveLength(2);
  });

  it('that did not run is a response with its code', async () => {
    const scenario = app.scenario();
    await scenario.post('/orders', { json: { items } });
    const other = await scenario.post('/orders', { json: { items: ['pen'] } });
    expect(other).toMatchObject({ status: 409, json: { code: 'idempotency_key_reused' } });
    expect(other.header('retry-after')).toBeUndefined();
    store.always(unavailable, 'begin');
    const later = await app.scenario().post('/orders', { json: { items } });
    expect(later).toMatchObject({ status: 503, json: { code: 'idempotency_store_unavailable' } });
    expect(later.header('retry-after')).toBe('1');
    expect(inserted).toHaveLength(1);
  });

  it('may publish an event that is handled once per id', async () => {
    const events = app.nest.get(EventBus);
    const { prepared } = app.nest.get<ListedShipping>(Shipping);
    for (const id of ['e1', 'e1', 'e2']) events.publish(new OrderPlaced(id, `order of ${id}`));
    await until(() => prepared.length > 1);
    expect(prepared.sort()).toEqual(['order of e1', 'order of e2']);
  });
});
