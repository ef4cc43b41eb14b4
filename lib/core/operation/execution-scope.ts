import { AsyncLocalStorage } from 'node:async_hooks';
import { digest } from '../record/fingerprint.js';
import type { RecordKey } from '../record/record.js';
import {
  IdempotencyOptionsError,
  NoIdempotencyContextError,
  NoTransactionError,
} from '../util/errors.js';
import type { Attempt, AttemptTransaction } from './attempt.js';
import type { IdempotencyContext } from './idempotency-context.js';
import type { OperationRequest } from './operation-request.js';
import type { Recovery } from './recovery.js';

/** What code finds that runs in an operation. */
export interface OperationContext {
  readonly context: IdempotencyContext;
  /** Where the operation is `transactional`. */
  readonly transaction?: Pick<AttemptTransaction, 'handle'> | undefined;
}

/**
 * One run of an operation, as everything below it can find it. It is entered more than once where an
 * interceptor retries, and goes on where one gives up on it, whatever their stream says meanwhile.
 */
export class ExecutionScope implements OperationContext {
  private active = 0;
  private wrappers = 0;
  private entries = 0;
  private returned = 0;
  private threw = false;
  private isUsed = false;
  private idleListeners: (() => void)[] = [];

  constructor(
    readonly context: IdempotencyContext,
    /** The method that is the operation, where it reports its own entry. */
    readonly handler?: object,
    /** What to ask before the operation itself, on a takeover. */
    readonly recover?: () => Promise<Recovery>,
    /** Where it is `transactional`. */
    readonly transaction?: AttemptTransaction,
    /** What counts of an Observable that it returns: what it emits last, as on HTTP, or all that it emits. */
    readonly emissions: 'last' | 'all' = 'last',
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

  /** Whether it threw the last time, whatever somebody has made of that. */
  get hasThrown(): boolean {
    return this.threw;
  }

  /** @throws {@link IdempotencyOptionsError} when its transaction has seen it before. */
  enter(): void {
    if (this.transaction !== undefined && this.isUsed) {
      throw new IdempotencyOptionsError(
        `${this.context.operation} was called again in the transaction of its first call, of which something may be left: an interceptor or another decorator inside of @Idempotent() repeats it. Use "conflictRetries", or let it repeat from outside.`,
      );
    }
    this.isUsed = true;
    this.entries += 1;
    this.active += 1;
  }

  /** It has a new transaction. */
  startOver(): void {
    this.isUsed = false;
  }

  /**
   * Somebody looks first whether it has been done: it is under way, and not entered.
   *
   * @param goOn - enters it, with what was found.
   */
  async lookUp<Found, Result>(
    find: () => Promise<Found>,
    goOn: (found: Found) => Result,
  ): Promise<Awaited<Result>> {
    this.active += 1;
    let result: Result;
    try {
      result = goOn(await find());
    } finally {
      this.leave('lookedUp');
    }
    return await result;
  }

  leave(how: 'returned' | 'threw' | 'lookedUp'): void {
    if (how !== 'lookedUp') this.threw = how === 'threw';
    this.ended(how === 'returned');
  }

  /** What another decorator has put around the method begins: for as long as it runs, its own end decides. */
  enterWrapper(): void {
    this.active += 1;
    this.wrappers += 1;
  }

  leaveWrapper(how: 'returned' | 'threw'): void {
    this.wrappers -= 1;
    if (how === 'threw') this.threw = true;
    this.ended(how === 'returned');
  }

  /** Calls `listener` as soon as nothing of the operation is running, now if nothing is. */
  whenIdle(listener: () => void): void {
    if (this.active === 0) listener();
    else this.idleListeners.push(listener);
  }

  private ended(hasReturned: boolean): void {
    if (hasReturned && this.wrappers === 0) this.returned += 1;
    this.active -= 1;
    if (this.active > 0) return;
    const listeners = this.idleListeners;
    this.idleListeners = [];
    for (const listener of listeners) listener();
  }
}

/** @internal */
export const executionScope = new AsyncLocalStorage<OperationContext>();

/** The context of the idempotent operation that the calling code runs in, or `undefined` outside of one. */
export function currentIdempotencyContext(): IdempotencyContext | undefined {
  return executionScope.getStore()?.context;
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

/**
 * The transaction of the `transactional` operation that the calling code runs in, as its unit of work gives it (a
 * client of pg, an `EntityManager`, …), or `undefined` outside of one.
 */
// eslint-disable-next-line @typescript-eslint/no-unnecessary-type-parameters -- the caller knows its unit of work
export function currentIdempotencyTransaction<Handle = unknown>(): Handle | undefined {
  return executionScope.getStore()?.transaction?.handle as Handle | undefined;
}

/**
 * The transaction of the `transactional` operation that the calling code runs in.
 *
 * @throws {@link NoTransactionError} outside of one.
 */
// eslint-disable-next-line @typescript-eslint/no-unnecessary-type-parameters -- the caller knows its unit of work
export function requireIdempotencyTransaction<Handle = unknown>(): Handle {
  const transaction = currentIdempotencyTransaction<Handle>();
  if (transaction === undefined) {
    throw new NoTransactionError(
      'There is no transaction here: the code was not called from an operation with "transactional": true, or the request came without a key.',
    );
  }
  return transaction;
}

/** The context that `attempt` of `claim` runs in. */
export function contextOf(
  { operation, scope, key, recordKey }: OperationRequest,
  attempt: Attempt,
): IdempotencyContext {
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
    downstreamKey: (name) => downstreamKey(operation, recordKey, name),
    onCommitted(hook) {
      const { transaction } = attempt;
      if (transaction === undefined) {
        throw new NoTransactionError(
          `onCommitted() was called in ${operation}, which has no transaction: set "transactional" to true there.`,
        );
      }
      transaction.onCommitted(hook);
    },
  };
}

/** Keeps these digests apart from all others that have a record key in them. */
const PURPOSE = 'nestjs-idempotency/downstream';

/**
 * The key that an operation gives to a service that it calls: 43 characters of base64url, SHA-256 over the record key
 * and the name. All attempts at one record have the same one, and nobody can read the client's key from it.
 *
 * @throws {@link IdempotencyOptionsError} for a name that is no text, or empty.
 */
export function downstreamKey(operation: string, recordKey: RecordKey, name: string): string {
  if (typeof name !== 'string' || name === '') {
    throw new IdempotencyOptionsError(
      `downstreamKey() was called in ${operation} without a name: name the service and the call, such as downstreamKey('stripe/charge').`,
    );
  }
  return digest([PURPOSE, recordKey, name]);
}
