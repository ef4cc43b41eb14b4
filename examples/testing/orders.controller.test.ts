import { beforeEach, describe, expect, it } from '@jest/globals';
import { createIdempotencyContext } from 'nestjs-idempotency/testing';
import { OrdersController } from './orders.controller.js';
import { TestPayments } from './test-payments.js';

describe('OrdersController', () => {
  const payment = { order: '7', amount: 1200 };
  let payments: TestPayments;
  let controller: OrdersController;
  beforeEach(() => {
    payments = new TestPayments();
    controller = new OrdersController(payments);
  });

  it('charges with the key that is derived for the bank', async () => {
    const context = createIdempotencyContext();
    await controller.pay(payment, context);
    expect(payments.charged).toEqual([{ payment, key: context.downstreamKey('bank/charge') }]);
  });

  it('looks up the payment before it charges again after a crash', async () => {
    await controller.pay(payment, createIdempotencyContext());
    const takeover = createIdempotencyContext({ isTakeover: true });
    expect(await controller.pay(payment, takeover)).toEqual(payment);
    expect(takeover.downstreamNames).toEqual([]);
    expect(payments.charged).toHaveLength(1);
  });

  it('charges nothing once the lease is lost', async () => {
    const context = createIdempotencyContext();
    context.abort('expired');
    await expect(controller.pay(payment, context)).rejects.toBe('expired');
    expect(payments.charged).toEqual([]);
  });
});
