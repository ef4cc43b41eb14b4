import type { Order } from './orders.js';

/** Where a process stops forever. */
export type StopsAt = 'never' | 'before publishing' | 'after publishing';

/** The settings of a process that runs outbox.process.ts. */
export interface ProcessSettings {
  readonly url: string;
  /** The order that it places first, if any. */
  readonly order?: Order;
  readonly stopsAt: StopsAt;
  /** The file that stands in for the broker: a line of JSON for each message. */
  readonly broker: string;
}

export const MODULE_OPTIONS = {
  service: 'shop',
  lease: { duration: '1s' },
  duplicates: { mode: 'wait', timeout: '20s' },
  // A busy machine must not look like a database that is down.
  storeErrors: { commandTimeout: '5s', saveTimeout: '5s' },
} as const;
