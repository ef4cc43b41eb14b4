import { AsyncLocalStorage } from 'node:async_hooks';
import { digest } from '../record/fingerprint.js';
import type { RecordKey } from '../record/record.js';
import {
  IdempotencyOptionsError,
  NoIdempotencyContextError,
  NoTransactionError,
} from '../errors/errors.js';
import type { Attempt, AttemptTransaction } from './attempt.js';
import type { IdempotencyContext } from './idempotency-context.js';
import type { OperationRequest } from './operation-request.js';
import type { Recover, Recovery, Services } from './recovery.js';

export interface OperationContext {
  readonly context: IdempotencyContext;
  readonly transaction?: Pick<AttemptTransaction, 'handle'> | undefined;
}

/**
 * `entered`: a call of the method. `returned`: its end; with `goesOn`, something around it is still running. `active`: a
 * wrapper or look-up starts first. `idle`: the last of all has ended, by an error or without a result.
 */
export interface OperationSignal {
  readonly kind: 'active' | 'entered' | 'returned' | 'threw' | 'idle';
  readonly goesOn?: boolean;
}

const ACTIVE: OperationSignal = { kind: 'active' };
const ENTERED: OperationSignal = { kind: 'entered' };
const RETURNED: OperationSignal = { kind: 'returned' };
const RETURNED_ONCE: OperationSignal = { kind: 'returned', goesOn: true };
const THREW: OperationSignal = { kind: 'threw' };
const IDLE: OperationSignal = { kind: 'idle' };

/**
 * The async context of one execution. It may be entered repeatedly, and outlive an interceptor's timeout and stream.
 */
export class ExecutionScope implements OperationContext {
  private active = 0;
  private wrappers = 0;
  private isUsed = false;
  private knownContext: IdempotencyContext | undefined;
  /** Is notified of the calls: see {@link OperationSignal}. */
  listener: { report(signal: OperationSignal): void } | undefined;
  /** Where the operation was called: of another operation, if it is nested. */
  readonly caller = executionScope.getStore();
  /** What its own code gets in place of the attempt's signal: one that also other code may abort. */
  linkSignal: ((own: AbortSignal) => AbortSignal) | undefined;
  /** Called before the operation on a takeover, or with `lease.recoverOn: 'always'`. */
  recover: (() => Promise<Recovery>) | undefined;

  constructor(
    private readonly request: OperationRequest,
    private readonly attempt: Attempt,
    /** The operation's method, if it reports its own entry. */
    readonly handler?: object,
    /** Which values of a returned Observable are its result: the last one, as on HTTP, or all. */
    readonly emissions: 'last' | 'all' = 'last',
  ) {}

  /** Made on demand: most operations never read it. */
  get context(): IdempotencyContext {
    this.knownContext ??= contextOf(this.request, this.attempt, this);
    return this.knownContext;
  }

  get ownSignal(): AbortSignal {
    return this.attempt.signal;
  }

  /** Linked only where the operation's own code asks: elsewhere, what runs is another's. */
  get signal(): AbortSignal {
    const { linkSignal, ownSignal } = this;
    const isLinked = linkSignal !== undefined && senderIn(this) !== undefined;
    return isLinked ? linkSignal(ownSignal) : ownSignal;
  }

  get transaction(): AttemptTransaction | undefined {
    return this.attempt.transaction;
  }

  /** @throws {@link IdempotencyOptionsError} if it was called before in the same transaction. */
  enter(): void {
    if (this.transaction !== undefined && this.isUsed) {
      throw new IdempotencyOptionsError(
        `${this.request.operation} was called twice in one transaction, which may contain writes of the first call. An interceptor or decorator inside of @Idempotent() retries it: use "transaction.conflictRetries" instead, or retry outside of @Idempotent().`,
      );
    }
    this.isUsed = true;
    this.active += 1;
    this.listener?.report(ENTERED);
  }

  /** The operation has a new transaction. */
  startOver(): void {
    this.isUsed = false;
  }

  /** Starts the operation by `enter`; with {@link recover}, looks up first what was done before. */
  start<Result>(enter: (found: Recovery) => Result): Result | Promise<Awaited<Result>> {
    return this.recover === undefined ? enter('run') : this.lookUp(this.recover, enter);
  }

  /** Meanwhile, the operation is active but not entered. */
  private async lookUp<Result>(
    recover: () => Promise<Recovery>,
    enter: (found: Recovery) => Result,
  ): Promise<Awaited<Result>> {
    this.started();
    let result: Result;
    try {
      result = enter(await recover());
    } finally {
      this.leave('lookedUp');
    }
    return await result;
  }

  leave(how: 'returned' | 'threw' | 'lookedUp'): void {
    if (how === 'threw') this.listener?.report(THREW);
    this.ended(how === 'returned');
  }

  /** A wrapper by another decorator starts. While it runs, its end decides the result, not the method's. */
  enterWrapper(): void {
    this.started();
    this.wrappers += 1;
  }

  leaveWrapper(how: 'returned' | 'threw'): void {
    this.wrappers -= 1;
    this.leave(how);
  }

  private started(): void {
    this.active += 1;
    if (this.active === 1) this.listener?.report(ACTIVE);
  }

  private ended(hasReturned: boolean): void {
    this.active -= 1;
    if (hasReturned && this.wrappers === 0) {
      this.listener?.report(this.active === 0 ? RETURNED : RETURNED_ONCE);
    } else if (this.active === 0) {
      this.listener?.report(IDLE);
    }
  }
}

/** What the operation's own code finds: not its scope, because a nested call of its method is a plain call. */
export class InnerScope implements OperationContext {
  constructor(readonly outer: ExecutionScope) {}

  get context(): IdempotencyContext {
    return this.outer.context;
  }

  get transaction(): AttemptTransaction | undefined {
    return this.outer.transaction;
  }
}

/** @internal */
export const executionScope = new AsyncLocalStorage<OperationContext>();

/** What runs here: the handler of `scope` or what it calls, other code inside of `scope`, or neither. */
export function senderIn(scope: ExecutionScope): 'handler' | 'around' | undefined {
  let current = executionScope.getStore();
  while (current instanceof InnerScope || current instanceof ExecutionScope) {
    if (current === scope) return 'around';
    if (current instanceof InnerScope && current.outer === scope) return 'handler';
    current = current instanceof InnerScope ? current.outer : current.caller;
  }
  return undefined;
}

/** Returns the context of the current idempotent operation, or `undefined` outside of one. */
export function currentIdempotencyContext(): IdempotencyContext | undefined {
  return executionScope.getStore()?.context;
}

/**
 * Returns the context of the current idempotent operation.
 * @throws {@link NoIdempotencyContextError} outside of one.
 */
export function requireIdempotencyContext(): IdempotencyContext {
  const context = currentIdempotencyContext();
  if (context === undefined) {
    throw new NoIdempotencyContextError(
      'No idempotent operation is active. Call this from a handler with @Idempotent() or from IdempotencyService.run(). A request without a key does not start an idempotent operation.',
    );
  }
  return context;
}

/**
 * Returns the transaction of the current operation (a client of pg, an `EntityManager`, …); `undefined`
 * outside of one.
 */
// eslint-disable-next-line @typescript-eslint/no-unnecessary-type-parameters -- the caller knows its unit of work
export function currentIdempotencyTransaction<Handle = unknown>(): Handle | undefined {
  return executionScope.getStore()?.transaction?.handle as Handle | undefined;
}

/**
 * Returns the transaction of the current operation.
 * @throws {@link NoTransactionError} outside of one.
 */
// eslint-disable-next-line @typescript-eslint/no-unnecessary-type-parameters -- the caller knows its unit of work
export function requireIdempotencyTransaction<Handle = unknown>(): Handle {
  const transaction = currentIdempotencyTransaction<Handle>();
  if (transaction === undefined) {
    throw new NoTransactionError(
      'No transaction is active. Call this from an operation with "transaction": true. A request without a key does not start a transaction.',
    );
  }
  return transaction;
}

export function contextOf(
  { operation, scope, key, recordKey, plainKey = recordKey }: OperationRequest,
  attempt: Attempt,
  source: { readonly signal: AbortSignal } = attempt,
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
      return source.signal;
    },
    // The same under each digest key: a retry must not have another one while they rotate.
    downstreamKey: (name) => downstreamKey(operation, plainKey, name),
    onCommitted(hook) {
      const { transaction } = attempt;
      if (transaction === undefined) {
        throw new NoTransactionError(
          `onCommitted() was called in ${operation}, which has no transaction. Set its option "transaction" to true.`,
        );
      }
      transaction.onCommitted(hook);
    },
  };
}

/** Makes these digests differ from all others that include a record key. */
const PURPOSE = 'nestjs-idempotency/downstream';

/** See {@link IdempotencyContext.downstreamKey}. SHA-256 of the record key and the name, as 43 base64url characters. */
export function downstreamKey(operation: string, recordKey: RecordKey, name: string): string {
  if (typeof name !== 'string' || name === '') {
    throw new IdempotencyOptionsError(
      `downstreamKey() was called in ${operation} without a name. Pass the service and the call, such as downstreamKey('stripe/charge').`,
    );
  }
  return digest([PURPOSE, recordKey, name]);
}

/** The look-up of an attempt by the function given as `lease.onTakeover`. */
export function recoveryOf(
  onTakeover: Recover,
  attempt: Attempt,
  context: IdempotencyContext,
  services: Services,
): () => Promise<Recovery> {
  return async () => {
    const found: unknown = await onTakeover(context, services);
    if (!isRecovery(found)) {
      throw new IdempotencyOptionsError(
        `The function given as the option "lease.onTakeover" of ${context.operation} must return 'run' or { value }.`,
      );
    }
    if (found !== 'run') attempt.recovered();
    return found;
  };
}

function isRecovery(result: unknown): result is Recovery {
  return result === 'run' || (typeof result === 'object' && result !== null && 'value' in result);
}
