/** The settings of a process of this test. */
export interface ProcessSettings {
  readonly role: 'worker' | 'reconciler';
  readonly store: { readonly kind: 'redis' | 'postgres'; readonly url: string };
  /** The file that records effects: a line with the key for each. */
  readonly ledger: string;
  readonly leaseMs: number;
  /** The calls of a worker, and where each stops. */
  readonly calls: readonly { readonly key: string; readonly stopsAt: 'before' | 'after' }[];
}

/** The output of a process: a line of JSON for each message. */
export type Message =
  | { readonly said: 'ready' }
  /** Every call of a worker has stopped. */
  | { readonly said: 'stopped' }
  /** A reconciler has called onTakeover for a key. */
  | { readonly said: 'lookedUp'; readonly key: string; readonly attempt: number }
  | { readonly said: 'event'; readonly type: string; readonly recordKey: string | undefined };

export const OPERATION = 'orders.settle';
export const SCOPE = 'the shop';
/** A busy machine must not look like a server that is down. */
export const COMMAND_TIMEOUT_MS = 10_000;
