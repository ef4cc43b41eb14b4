import type { Scope } from '../record/scope.js';

/** What an operation can read of its own attempt. */
export interface IdempotencyContext {
  /** The operation's stable name. */
  readonly operation: string;
  /** Whom the key belongs to. */
  readonly scope: Scope;
  /** The idempotency key as the client chose it. */
  readonly key: string;
  /** 1 for the first attempt of this key. */
  readonly attempt: number;
  /** An earlier attempt's outcome is unknown: check before running again, for example at the payment provider. */
  readonly isTakeover: boolean;
  /** False if the attempt runs without a record, as `storeErrors.whenUnavailable: 'execute'` allows. */
  readonly isProtected: boolean;
  /**
   * Only grows per record key, below 2^53; 0 if unprotected. To fence the operation's writes (`… WHERE fence < $1`).
   */
  readonly fencingToken: number;
  /**
   * Aborted once this attempt can no longer rely on its lease. Pass it to `fetch` and other calls. Its reason is
   * `'lost'`, `'gone'`, `'expired'`, `'max_execution'` or `'connection_lost'`. In an unprotected attempt it is aborted
   * after `lease.maxExecution`, with a `TimeoutError`.
   */
  readonly signal: AbortSignal;
  /**
   * Derives an idempotency key for a service that the operation calls, so that the service acts once for all attempts.
   * It is the same in every attempt of this key, protected or not, and in `onTakeover`. 43 base64url characters, from
   * which the client's key cannot be read.
   * @param name - the service and the call, such as `'stripe/charge'`. Another name gives another key.
   * @throws {@link IdempotencyOptionsError} for an empty name.
   */
  readonly downstreamKey: (name: string) => string;
  /**
   * Calls `hook` after the transaction of the operation is committed, and never if it is not. The shutdown
   * waits for the hook, the response does not. The hook is lost if the process dies before it: what must not be lost
   * belongs in the transaction (an outbox).
   * @throws {@link NoTransactionError} if the operation has no `transaction`.
   */
  onCommitted(hook: () => unknown): void;
}
