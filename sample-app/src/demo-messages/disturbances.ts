import { setTimeout as sleep } from 'node:timers/promises';
import type { Consumer } from './consumer.js';

const POLL_MS = 20;

export type Consumers = readonly [Consumer, Consumer, Consumer];

interface Disturbance {
  /** Which part of the orders has been charged by then. */
  readonly at: number;
  readonly consumer: 0 | 1 | 2;
  readonly cause: (consumer: Consumer) => unknown;
}

const cut = ({ line }: Consumer) => line.cut();

const killAndStartAgain = async (consumer: Consumer) => {
  await consumer.kill();
  await consumer.start();
};

/** As many as an order may come again: one that all of them meet is not put aside. */
export const disturbances: readonly Disturbance[] = [
  { at: 1 / 8, consumer: 1, cause: cut },
  { at: 1 / 4, consumer: 2, cause: cut },
  { at: 1 / 2, consumer: 0, cause: killAndStartAgain },
  { at: 5 / 8, consumer: 1, cause: cut },
  { at: 3 / 4, consumer: 2, cause: cut },
];

/**
 * Cuts connections and kills a consumer, each in the middle of its work.
 *
 * @param progress - which part of the orders has been charged.
 */
export async function disturb(consumers: Consumers, progress: () => number): Promise<void> {
  for (const { at, consumer, cause } of disturbances) {
    const victim = consumers[consumer];
    const isDue = () => progress() >= at && victim.atWork > 0;
    // When all is done there is no middle any more.
    while (!isDue() && progress() < 1) await sleep(POLL_MS);
    await cause(victim);
  }
}
