import type { Scope } from '../record/record-key.js';

/** What an operation may want to know about its own attempt. */
export interface IdempotencyContext {
  /** The operation's stable name. */
  readonly operation: string;
  /** Whose key it is. */
  readonly scope: Scope;
  /** The idempotency key as the client chose it. */
  readonly key: string;
  /** 1 for the first attempt of this key. */
  readonly attempt: number;
  /**
   * An earlier attempt of this key ended unknown: it may have had its effect, so look before repeating
   * it (ask the payment provider, say).
   */
  readonly isTakeover: boolean;
  /** False in a run without a record, as `onStoreUnavailable: 'execute'` allows. */
  readonly isProtected: boolean;
  /**
   * A number below 2^53 that only grows per record key, to fence own writes with
   * (`UPDATE … WHERE fence < $1`); 0 in an unprotected run.
   */
  readonly fencingToken: number;
  /**
   * Aborted once this attempt may no longer count on its lease; pass it on to `fetch` and the like. Its
   * reason is `'lost'`, `'gone'`, `'expired'`, `'max_execution'` or `'connection_lost'`. In an unprotected run it is a time-out of
   * `maxExecutionMs`.
   */
  readonly signal: AbortSignal;
  /**
   * A key for a service that the operation calls, so that it does once what all attempts ask it for: the same on every
   * attempt at this key, in an unprotected run and in `onTakeover`, too, and another one for each name. 43 characters of
   * base64url, of which the client's key cannot be read.
   *
   * @param name - which call of which service: `'stripe/charge'`. Part of the key: a new name is a new key.
   * @throws {@link IdempotencyOptionsError} for a name that is empty.
   */
  readonly downstreamKey: (name: string) => string;
  /**
   * Calls `hook` once the transaction of a `transactional` operation was committed; never if it was not. The
   * answer does not wait for it, the shutdown does. Whatever must not be lost when the process dies in between
   * belongs into the transaction (an outbox).
   *
   * @throws {@link NoTransactionError} where the operation is not `transactional`.
   */
  onCommitted(hook: () => unknown): void;
}
