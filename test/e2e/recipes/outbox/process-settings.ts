import type { Order } from './orders.js';

/** Where a process stops for ever. */
export type StopsAt = 'never' | 'before publishing' | 'after publishing';

/** What a process of outbox.process.ts is told. */
export interface ProcessSettings {
  readonly url: string;
  /** What it places first, if anything. */
  readonly order?: Order;
  readonly stopsAt: StopsAt;
  /** The broker: a line of JSON for each message. */
  readonly broker: string;
}

export const MODULE_OPTIONS = {
  leaseMs: 1_000,
  whenInProgress: 'wait',
  waitTimeoutMs: 20_000,
  // A machine that is busy with other tests is not to be mistaken for a database that is down.
  commandTimeoutMs: 5_000,
  saveTimeoutMs: 5_000,
} as const;
