import { downstreamKey, executionScope } from '../core/operation/execution-scope.js';
import type { IdempotencyContext } from '../core/operation/idempotency-context.js';
import type { LeaseLossReason } from '../core/record/events.js';
import { recordKey } from '../core/record/record-key.js';
import { givenScope, readScope, type Scope } from '../core/record/scope.js';
import { NoTransactionError } from '../core/errors/errors.js';
import { checkNames } from '../core/options/option-checks.js';

/** Options of {@link createIdempotencyContext}: each sets the context's property of the same name. */
export interface IdempotencyTestContextOptions {
  /** The module option of that name, for `downstreamKey`. @defaultValue none */
  readonly service?: string;
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
  /** @defaultValue that of the attempt: 1 for the first one; 0 if `isProtected` is false */
  readonly fencingToken?: number;
  /** Aborts the context's signal when it is aborted. @defaultValue none */
  readonly signal?: AbortSignal;
  /** @defaultValue the operation's own: 43 characters of base64url, made of service, scope, operation, key and name */
  readonly downstreamKey?: (name: string) => string;
  /**
   * The transaction that `@IdempotencyTransaction()` injects: the operation has one, and `onCommitted` can be
   * called.
   * @defaultValue none
   */
  readonly transaction?: object;
}

/** A context for a unit test, which also shows what the handler has done with it. */
export interface IdempotencyTestContext extends IdempotencyContext {
  /** The names that `downstreamKey` was called with, in order. */
  readonly downstreamNames: readonly string[];
  /** The hooks given to `onCommitted` and not called yet, in order. */
  readonly commitHooks: readonly (() => unknown)[];
  /** Aborts `signal` with a reason, `'lost'` by default, as if the attempt had lost its lease. */
  abort(reason?: LeaseLossReason): void;
  /** Calls the hooks in order, as after the commit, and awaits each. @throws a hook's error; those after it remain. */
  commit(): Promise<void>;
  /** Runs `operation` with this context, and its transaction, for `currentIdempotencyContext()` and its like. */
  run<Result>(operation: () => Result): Result;
}

const NAMES = new Set([
  'service',
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
 * Creates the context that `@IdempotencyContext()` injects, for a unit test: a protected first attempt by default.
 * @example `await controller.charge(payment, createIdempotencyContext({ isTakeover: true }))`
 * @throws {@link IdempotencyOptionsError} for an unknown option, and a scope that no operation can have.
 */
export function createIdempotencyContext(
  options: IdempotencyTestContextOptions = {},
): IdempotencyTestContext {
  checkNames('createIdempotencyContext()', options, NAMES);
  const { transaction, scope = [], ...others } = options;
  return testContext(
    { ...others, scope: givenScope(readScope(scope, true)) },
    transaction && { handle: transaction },
  );
}

/** @param transaction - of an operation with `transaction`; without a handle if there is no unit of work. */
export function testContext(
  options: Omit<IdempotencyTestContextOptions, 'transaction'>,
  transaction: { readonly handle: unknown } | undefined,
): IdempotencyTestContext {
  const { service, operation = 'test', scope = [], key = 'test-key' } = options;
  const { isTakeover = false, attempt = isTakeover ? 2 : 1, isProtected = true } = options;
  const { fencingToken = isProtected ? attempt : 0, signal } = options;
  const keyFor =
    options.downstreamKey ??
    ((name: string) =>
      downstreamKey(operation, recordKey({ service, scope, operation, key }), name));
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
          `onCommitted() was called in ${operation}, which has no transaction. If it has the option "transaction", pass a "transaction" to createIdempotencyContext().`,
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
