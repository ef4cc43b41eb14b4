import type { WireClose, WireDelivery } from './wire/wire-log.js';

/** How often the broker sent messages again, and what was under way when channels ended. */
export interface Redeliveries {
  readonly redeliveries: number;
  /** Unacknowledged messages at the ends of channels, including the following two. */
  readonly unacknowledgedAtCloses: number;
  /** What was acknowledged when the broker no longer listened to that channel. */
  readonly acknowledgedTooLate: number;
  /** What the broker had sent on a channel that ended before it arrived. */
  readonly neverArrived: number;
}

/** Checks each copy of a message: a redelivery follows a delivery. */
export function redeliveriesIn(
  deliveries: readonly WireDelivery[],
  closes: readonly WireClose[],
): Redeliveries {
  const endBefore = new Map<string, WireDelivery['end']>();
  let acknowledgedTooLate = 0;
  let neverArrived = 0;
  for (const { copy, isRedelivered, end } of [...deliveries].sort((a, b) => a.at - b.at)) {
    const before = endBefore.get(copy);
    endBefore.set(copy, end);
    if (before === undefined && isRedelivered) neverArrived += 1;
    if (before === 'acked') acknowledgedTooLate += 1;
  }
  const returned = closes.reduce((sum, close) => sum + close.returned, 0);
  return {
    redeliveries: deliveries.filter(({ isRedelivered }) => isRedelivered).length,
    unacknowledgedAtCloses: returned + acknowledgedTooLate + neverArrived,
    acknowledgedTooLate,
    neverArrived,
  };
}
