import { describe, expect, it } from '@jest/globals';
import { faults } from '../../../sample-app/demo/messages/faults.js';
import { copiesOf, placedOrders } from '../../../sample-app/demo/messages/orders.js';
import { Progress } from '../../../sample-app/demo/messages/progress.js';
import { randomOf } from '../../../sample-app/demo/messages/random.js';
import { demoSettings } from '../../../sample-app/demo/messages/settings.js';
import {
  checksOf,
  type Observation,
  summaryOf,
} from '../../../sample-app/demo/messages/summary.js';
import type { Charge } from '../../../sample-app/src/ledger/ledger.js';
import { DELIVERY_LIMIT } from '../../../sample-app/src/orders/orders-queue.js';

describe('the verdict of npm run demo:messages', () => {
  const orders = placedOrders(3);
  const charges = orders.map(({ id, customer, amount, currency }): Charge => ({
    kind: 'charge',
    id: `charge of ${id}`,
    reference: `reference of ${id}`,
    userId: customer,
    amount,
    currency,
    description: id,
    fencingToken: 1,
    at: '2026-01-01T00:00:00.000Z',
  }));
  const [charge] = charges;
  const good: Observation = {
    orders,
    published: 7,
    deliveries: 9,
    redeliveries: 2,
    replays: 5,
    takeovers: 1,
    askedAgain: 1,
    charges,
    remaining: 0,
    deadLettered: 0,
  };
  const failuresOf = (seen: Observation) =>
    Object.entries(checksOf(seen)).flatMap(([check, holds]) => (holds ? [] : [check]));

  it('is good when each order was charged once', () => {
    expect(failuresOf(good)).toEqual([]);
    expect(summaryOf(good)).toMatch(/^charges per order +1×3$/m);
  });

  it.each<[string, Partial<Observation>, RegExp, string]>([
    [
      'an order was charged twice',
      { charges: [...charges, charge!] },
      /1×2, 2×1$/,
      'every order was charged once',
    ],
    [
      'an order was not charged',
      { charges: charges.slice(1) },
      /0×1, 1×2$/,
      'every order was charged once',
    ],
    [
      'a customer was charged without an order',
      { charges: [...charges, { ...charge!, description: 'none' }] },
      /40\.03 of 30\.03 EUR$/m,
      'nothing else was charged',
    ],
    [
      'the handler ran again without a report',
      { takeovers: 0 },
      /^takeovers reported +0 /m,
      'every duplicate request to the provider followed a takeover',
    ],
    ['a message is left', { remaining: 1 }, /^left in the queue +1$/m, 'the queue is empty'],
    [
      'a message was dead-lettered',
      { deadLettered: 1 },
      /^dead-lettered +1$/m,
      'nothing was dead-lettered',
    ],
  ])('is bad when %s', (_, wrong, row, check) => {
    expect(failuresOf({ ...good, ...wrong })).toContain(check);
    expect(summaryOf({ ...good, ...wrong })).toMatch(row);
  });
});

describe('the progress of npm run demo:messages', () => {
  const MINUTE_MS = 60_000;
  const counts = (charged: number) => ({ orders: 1000, charged, deliveries: 2 * charged });

  it('is printed for each tenth of the orders', () => {
    const progress = new Progress();
    const tenths = [0, 99, 100, 150, 420, 1000].map(
      (charged) => progress.next(counts(charged), 0).isNewTenth,
    );
    expect(tenths).toEqual([false, false, true, false, true, true]);
    expect(progress.next(counts(1000), 0).line).toBe(
      '1,000 of 1,000 orders charged, after 2,000 deliveries',
    );
  });

  it('may take any time, but may not stand still', () => {
    const progress = new Progress();
    for (let minute = 0; minute < 100; minute += 1) {
      progress.next(counts(minute), minute * MINUTE_MS);
    }
    progress.next(counts(99), 100 * MINUTE_MS);
    expect(() => progress.next(counts(99), 100 * MINUTE_MS + 1)).toThrow(
      'Nothing has happened for 60 s: 99 of 1,000 orders charged',
    );
  });
});

describe('the settings of npm run demo:messages', () => {
  it('are a thousand orders on its own broker by default', () => {
    expect(demoSettings({})).toEqual({ orders: 1000, seed: 1, brokerUrl: undefined });
  });

  it.each([
    [{ DEMO_ORDERS: '0' }, 'DEMO_ORDERS must be an integer from 1 to 100000, got 0'],
    [{ DEMO_SEED: 'one' }, 'DEMO_SEED must be an integer'],
    [{ BROKER_URL: 'amqps://127.0.0.1' }, 'BROKER_URL must start with amqp://'],
  ])('reject %j', (environment, complaint) => {
    expect(() => demoSettings(environment)).toThrow(complaint);
  });

  it("close an order's channel less often than the broker's delivery limit", () => {
    expect(faults.length).toBeLessThanOrEqual(DELIVERY_LIMIT);
  });

  it('make the same copies for one seed, and others for another', () => {
    const orders = placedOrders(50);
    const copies = (seed: number) => copiesOf(orders, randomOf(seed));
    expect(copies(1)).toEqual(copies(1));
    expect(copies(1)).not.toEqual(copies(2));
    expect(new Set(copies(1))).toEqual(new Set(orders));
  });
});
