import type { Charge } from '../../src/ledger/ledger.js';
import type { PlacedOrderDto } from '../../src/orders/placed-order.dto.js';

export interface Observation {
  readonly orders: readonly PlacedOrderDto[];
  /** How many messages were published. */
  readonly published: number;
  readonly deliveries: number;
  readonly redeliveries: number;
  readonly replays: number;
  readonly takeovers: number;
  readonly askedAgain: number;
  /** From the ledger, independent of the library and the consumers. */
  readonly charges: readonly Charge[];
  /** Messages left in the queue after the consumers have ended. */
  readonly remaining: number;
  /** Messages that the broker has dead-lettered. */
  readonly deadLettered: number;
}

/** What must hold, in words that fit after "not:". */
export function checksOf(seen: Observation): Readonly<Record<string, boolean>> {
  const { orders, charges, takeovers, askedAgain, remaining, deadLettered } = seen;
  return {
    'every order was charged once': chargesPerOrder(seen).every((count) => count === 1),
    'nothing else was charged': sumOf(charges) === sumOf(orders),
    'every duplicate request to the provider followed a takeover': askedAgain <= takeovers,
    'the queue is empty': remaining === 0,
    'nothing was dead-lettered': deadLettered === 0,
  };
}

export function summaryOf(seen: Observation): string {
  const { orders, published, deliveries, redeliveries, replays, takeovers, askedAgain } = seen;
  const { charges, remaining, deadLettered } = seen;
  const rows: readonly (readonly [name: string, value: string, note?: string])[] = [
    ['orders', counted(orders.length)],
    ['messages published', counted(published)],
    ['deliveries', counted(deliveries)],
    ['  of these redelivered', counted(redeliveries), 'by closed channels'],
    ['replayed', counted(replays), 'acknowledged without a second execution'],
    ['takeovers reported', counted(takeovers), 'of orders that the killed consumer had begun'],
    ['provider called again', counted(askedAgain), 'with the same key: it charged nothing'],
    ['left in the queue', counted(remaining)],
    ['dead-lettered', counted(deadLettered)],
    ['charges in the ledger', counted(charges.length), `${money(charges)} of ${money(orders)} EUR`],
    ['charges per order', distribution(chargesPerOrder(seen))],
  ];
  return rows
    .map(([name, value, note = '']) => `${name.padEnd(24)}${value.padStart(9)}   ${note}`.trimEnd())
    .join('\n');
}

function chargesPerOrder({ orders, charges }: Observation): number[] {
  const counts = new Map(orders.map(({ id }) => [id, 0]));
  for (const { description = '' } of charges) {
    counts.set(description, (counts.get(description) ?? 0) + 1);
  }
  return [...counts.values()];
}

/** For example "1×998, 2×2". */
function distribution(counts: readonly number[]): string {
  const times = [...new Set(counts)].sort((a, b) => a - b);
  return times
    .map((count) => `${count}×${counted(counts.filter((other) => other === count).length)}`)
    .join(', ');
}

function sumOf(amounts: readonly { readonly amount: number }[]): number {
  return amounts.reduce((sum, { amount }) => sum + amount, 0);
}

function money(amounts: readonly { readonly amount: number }[]): string {
  return (sumOf(amounts) / 100).toLocaleString('en', { minimumFractionDigits: 2 });
}

function counted(count: number): string {
  return count.toLocaleString('en');
}
