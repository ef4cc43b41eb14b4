import { AsyncLocalStorage } from 'node:async_hooks';
import type { Attempt } from './attempt.js';
import type { Claim } from './claim.js';
import { NoIdempotencyContextError } from './errors.js';
import type { Scope } from './record-key.js';

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
   * reason is `'lost'`, `'gone'`, `'expired'` or `'max_execution'`. In an unprotected run it is a time-out of
   * `maxExecutionMs`.
   */
  readonly signal: AbortSignal;
}

/**
 * One run of an operation, as everything below it can find it. It is entered more than once where an
 * interceptor retries, and goes on where one gives up on it, whatever their stream says meanwhile.
 */
export class RunningOperation {
  private active = 0;
  private entries = 0;
  private returned = 0;
  private idleListeners: (() => void)[] = [];

  constructor(
    readonly context: IdempotencyContext,
    /** The method that is the operation, where it reports its own entry. */
    readonly handler?: unknown,
  ) {}

  /** Whether the operation itself was reached, past pipes and inner interceptors (contract C88). */
  get isEntered(): boolean {
    return this.entries > 0;
  }

  get isActive(): boolean {
    return this.active > 0;
  }

  /** Whether it returned, at least once. */
  get hasReturned(): boolean {
    return this.returned > 0;
  }

  enter(): void {
    this.entries += 1;
    this.active += 1;
  }

  leave(how: 'returned' | 'threw'): void {
    this.active -= 1;
    if (how === 'returned') this.returned += 1;
    if (this.active > 0) return;
    const listeners = this.idleListeners;
    this.idleListeners = [];
    for (const listener of listeners) listener();
  }

  /** Calls `listener` as soon as nothing of the operation is running, now if nothing is. */
  whenIdle(listener: () => void): void {
    if (this.active === 0) listener();
    else this.idleListeners.push(listener);
  }
}

/** @internal */
export const runningOperation = new AsyncLocalStorage<RunningOperation>();

/** The context of the idempotent operation that the calling code runs in, or `undefined` outside of one. */
export function currentIdempotencyContext(): IdempotencyContext | undefined {
  return runningOperation.getStore()?.context;
}

/**
 * The context of the idempotent operation that the calling code runs in.
 *
 * @throws {@link NoIdempotencyContextError} outside of one.
 */
export function requireIdempotencyContext(): IdempotencyContext {
  const context = currentIdempotencyContext();
  if (context === undefined) {
    throw new NoIdempotencyContextError(
      'There is no idempotent operation here: the code was not called from a handler with @Idempotent() or from IdempotencyService.run(), or the request came without a key.',
    );
  }
  return context;
}

/** The context that `attempt` of `claim` runs in. */
export function contextOf({ operation, scope, key }: Claim, attempt: Attempt): IdempotencyContext {
  return {
    operation,
    scope,
    key,
    attempt: attempt.number,
    isTakeover: attempt.isTakeover,
    isProtected: attempt.isProtected,
    fencingToken: attempt.fencingToken,
    get signal() {
      return attempt.signal;
    },
  };
}
