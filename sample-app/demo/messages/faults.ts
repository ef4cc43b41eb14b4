import { setTimeout as sleep } from 'node:timers/promises';
import type { Consumer } from './consumer.js';

const POLL_MS = 20;

export type Consumers = readonly [Consumer, Consumer, Consumer];

interface Fault {
  /** The share of the orders that is charged by then. */
  readonly at: number;
  readonly consumer: 0 | 1 | 2;
  readonly cause: (consumer: Consumer) => unknown;
}

const cut = ({ proxy }: Consumer) => proxy.cut();

const killAndStartAgain = async (consumer: Consumer) => {
  await consumer.kill();
  await consumer.start();
};

/** At most the delivery limit: an order that is hit by all of them is not dead-lettered. */
export const faults: readonly Fault[] = [
  { at: 1 / 8, consumer: 1, cause: cut },
  { at: 1 / 4, consumer: 2, cause: cut },
  { at: 1 / 2, consumer: 0, cause: killAndStartAgain },
  { at: 5 / 8, consumer: 1, cause: cut },
  { at: 3 / 4, consumer: 2, cause: cut },
];

/**
 * Cuts connections and kills a consumer, each in the middle of its work.
 *
 * @param progress - the share of the orders that is charged.
 */
export async function injectFaults(consumers: Consumers, progress: () => number): Promise<void> {
  for (const { at, consumer, cause } of faults) {
    const victim = consumers[consumer];
    const isDue = () => progress() >= at && victim.atWork > 0;
    // Without orders left there is nothing to interrupt.
    while (!isDue() && progress() < 1) await sleep(POLL_MS);
    await cause(victim);
  }
}
