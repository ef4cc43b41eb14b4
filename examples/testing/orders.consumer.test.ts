import { describe, expect, it } from '@jest/globals';
import { createIdempotencyContext } from 'nestjs-idempotency/testing';
import { OrdersConsumer } from './orders.consumer.js';
import { TestPayments } from './test-payments.js';

describe('OrdersConsumer', () => {
  it('charges an order', async () => {
    const payments = new TestPayments();
    const payment = { order: '7', amount: 1200 };
    const context = createIdempotencyContext({ operation: 'order.placed', key: 'event-1' });
    await context.run(() => new OrdersConsumer(payments).placed(payment));
    expect(payments.charged).toMatchObject([{ payment }]);
    expect(context.downstreamNames).toEqual(['bank/charge']);
  });
});
