import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import {
  IdempotencyTestClock,
  IdempotencyTestingModule,
  IdempotencyTestRecords,
} from 'nestjs-idempotency/testing';
import { AppModule, idempotency, idempotencyOptions } from './app.module.js';
import { Payments } from './payments.js';
import { TestPayments } from './test-payments.js';

describe('POST /orders', () => {
  let app: INestApplication;
  let payments: TestPayments;
  let records: IdempotencyTestRecords;
  beforeEach(async () => {
    payments = new TestPayments();
    const module = await Test.createTestingModule({ imports: [AppModule] })
      .overrideModule(idempotency)
      .useModule(IdempotencyTestingModule.inMemory(idempotencyOptions))
      .overrideProvider(Payments)
      .useValue(payments)
      .compile();
    app = module.createNestApplication();
    await app.listen(0, '127.0.0.1');
    records = app.get(IdempotencyTestRecords);
  });
  afterEach(() => app.close());

  const post = async (key: string, order = '7') =>
    fetch(`${await app.getUrl()}/orders`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': `"${key}"` },
      body: JSON.stringify({ order, amount: 1200 }),
    });

  it('charges once, and replays the response to every retry', async () => {
    const first = await post('k-1');
    const retry = await post('k-1');
    expect(await retry.text()).toBe(await first.text());
    expect(payments.charged).toHaveLength(1);
    expect(await records.list()).toMatchObject([
      {
        operation: 'OrdersController.pay',
        key: 'k-1',
        state: 'completed',
        executions: 1,
        replays: 1,
        outcome: { kind: 'response', status: 201, body: { order: '7', amount: 1200 } },
      },
    ]);
  });

  it('charges again under the same key once the outcome has expired', async () => {
    await post('k-1');
    await app.get(IdempotencyTestClock).advance(idempotencyOptions.outcome.retention);
    await post('k-1');
    expect(payments.charged).toHaveLength(2);
  });

  it('finds the payment of a process that died', async () => {
    await post('k-1');
    records.abandon('k-1');
    expect((await post('k-1')).status).toBe(201);
    expect(payments.charged).toHaveLength(1);
    expect(await records.list()).toMatchObject([{ attempt: 2, takeovers: 1 }]);
  });
});
