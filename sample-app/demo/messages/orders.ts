import type { PlacedOrderDto } from '../../src/orders/placed-order.dto.js';
import { shuffled } from './random.js';

/** How often the shop publishes one order at most. */
export const MAX_COPIES = 5;

const CUSTOMERS = ['alice', 'bob'];
const MIN_AMOUNT = 1000;

/** Orders of 10.00 EUR and a few cents; none has an amount at which the provider fails. */
export function placedOrders(count: number): PlacedOrderDto[] {
  return Array.from({ length: count }, (_, index) => ({
    id: `order-${index + 1}`,
    customer: CUSTOMERS[index % CUSTOMERS.length] ?? '',
    amount: MIN_AMOUNT + (index % 100),
    currency: 'EUR',
  }));
}

/** Each order once to {@link MAX_COPIES} times, in random order. */
export function copiesOf(orders: readonly PlacedOrderDto[], random: () => number) {
  const copies = orders.flatMap((order) =>
    Array.from({ length: 1 + Math.floor(random() * MAX_COPIES) }, () => order),
  );
  return shuffled(copies, random);
}
