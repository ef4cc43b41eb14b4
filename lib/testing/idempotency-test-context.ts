import { downstreamKey, executionScope } from '../core/operation/execution-scope.js';
import type { IdempotencyContext } from '../core/operation/idempotency-context.js';
import type { LeaseLossReason } from '../core/record/events.js';
import { recordKey, type Scope } from '../core/record/record-key.js';
import { NoTransactionError } from '../core/util/errors.js';
import { checkNames } from '../core/util/option-checks.js';

/** What {@link createIdempotencyContext} takes: each is what the context of the same name tells the handler. */
export interface IdempotencyTestContextOptions {
  /** @defaultValue `'test'` */
  readonly operation?: string;
  /** @defaultValue `[]`, an unknown caller */
  readonly scope?: Scope;
  /** @defaultValue `'test-key'` */
  readonly key?: string;
  /** @defaultValue 1; 2 with `isTakeover` */
  readonly attempt?: number;
  /** @defaultValue false */
  readonly isTakeover?: boolean;
  /** @defaultValue true */
  readonly isProtected?: boolean;
  /** @defaultValue that of the attempt: 1 for the first one; 0 where `isProtected` is false */
  readonly fencingToken?: number;
  /**
   * Aborts the context's signal when it is aborted.
   * @defaultValue none: nothing but {@link IdempotencyTestContext.abort} does
   */
  readonly signal?: AbortSignal;
  /** @defaultValue the key that the operation would have: 43 characters of base64url, made of scope, operation, key and name */
  readonly downstreamKey?: (name: string) => string;
  /**
   * The transaction that `@IdempotencyTransaction()` would give. With it the operation is `transactional`: `onCommitted`
   * can be called, and code inside of {@link IdempotencyTestContext.run} finds the transaction.
   * @defaultValue none
   */
  readonly transaction?: object;
}

/** A context for a unit test: what a handler is given, and what the handler has done with it. */
export interface IdempotencyTestContext extends IdempotencyContext {
  /** The names that `downstreamKey` was called with, in order. */
  readonly downstreamNames: readonly string[];
  /** What was handed to `onCommitted` and has not been called yet, in order. */
  readonly commitHooks: readonly (() => unknown)[];
  /**
   * Aborts `signal`, as if the attempt had lost its lease.
   *
   * @param reason - what the signal's reason is to be. `'lost'` unless it is given.
   */
  abort(reason?: LeaseLossReason): void;
  /**
   * Calls the hooks in order, as after the commit, and waits for each.
   *
   * @throws what a hook throws; those behind it are still there.
   */
  commit(): Promise<void>;
  /**
   * Runs `operation` where `currentIdempotencyContext()` and `requireIdempotencyContext()` give this context, and
   * `currentIdempotencyTransaction()` gives its transaction.
   *
   * @returns what `operation` returns.
   */
  run<Result>(operation: () => Result): Result;
}

const NAMES = new Set([
  'operation',
  'scope',
  'key',
  'attempt',
  'isTakeover',
  'isProtected',
  'fencingToken',
  'signal',
  'downstreamKey',
  'transaction',
]);

/**
 * The context that `@IdempotencyContext()` gives a handler, for a unit test that calls the handler itself: a first
 * attempt that is protected, unless the options say otherwise.
 *
 * @example `await controller.charge(payment, createIdempotencyContext({ isTakeover: true }))`
 * @throws {@link IdempotencyOptionsError} for an option that does not exist.
 */
export function createIdempotencyContext(
  options: IdempotencyTestContextOptions = {},
): IdempotencyTestContext {
  checkNames('createIdempotencyContext()', options, NAMES);
  const { transaction, ...identity } = options;
  return testContext(identity, transaction && { handle: transaction });
}

/** @param transaction - where the operation is `transactional`; without a handle where nothing opens one. */
export function testContext(
  options: Omit<IdempotencyTestContextOptions, 'transaction'>,
  transaction: { readonly handle: unknown } | undefined,
): IdempotencyTestContext {
  const { operation = 'test', scope = [], key = 'test-key' } = options;
  const { isTakeover = false, attempt = isTakeover ? 2 : 1, isProtected = true } = options;
  const { fencingToken = isProtected ? attempt : 0, signal } = options;
  const keyFor =
    options.downstreamKey ??
    ((name: string) => downstreamKey(operation, recordKey({ scope, operation, key }), name));
  const loss = new AbortController();
  const downstreamNames: string[] = [];
  const commitHooks: (() => unknown)[] = [];
  const context: IdempotencyTestContext = {
    operation,
    scope,
    key,
    attempt,
    isTakeover,
    isProtected,
    fencingToken,
    signal: signal === undefined ? loss.signal : AbortSignal.any([signal, loss.signal]),
    downstreamNames,
    commitHooks,
    downstreamKey(name) {
      downstreamNames.push(name);
      return keyFor(name);
    },
    onCommitted(hook) {
      if (transaction === undefined) {
        throw new NoTransactionError(
          `onCommitted() was called in ${operation}, which has no transaction: where the operation is "transactional", give createIdempotencyContext() its "transaction".`,
        );
      }
      commitHooks.push(hook);
    },
    abort(reason = 'lost') {
      loss.abort(reason);
    },
    async commit() {
      for (let hook = commitHooks.shift(); hook !== undefined; hook = commitHooks.shift()) {
        await hook();
      }
    },
    run(body) {
      return executionScope.run({ context, transaction }, body);
    },
  };
  return context;
}
