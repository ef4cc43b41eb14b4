/** What a process of this test is told. */
export interface ProcessSettings {
  readonly role: 'worker' | 'reconciler';
  readonly store: { readonly kind: 'redis' | 'postgres'; readonly url: string };
  /** Where effects go, a line each: the key. */
  readonly ledger: string;
  readonly leaseMs: number;
  /** Of a worker: what it runs, and how far it gets with it. */
  readonly calls: readonly { readonly key: string; readonly stopsAt: 'before' | 'after' }[];
}

/** What a process says, a line of JSON each. */
export type Message =
  | { readonly said: 'ready' }
  /** Every call of a worker is where it stops. */
  | { readonly said: 'stopped' }
  /** A reconciler looked what became of a key. */
  | { readonly said: 'looked'; readonly key: string; readonly attempt: number }
  | { readonly said: 'event'; readonly type: string; readonly recordKey: string | undefined };

export const OPERATION = 'orders.settle';
export const SCOPE = 'the shop';
/** A machine that is busy with other tests is not to be mistaken for a server that is down. */
export const COMMAND_TIMEOUT_MS = 10_000;
