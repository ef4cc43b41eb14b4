import { PROTOCOL, type ProtocolOptions } from '../../core/operation/options.js';
import type { ScopePart } from '../../core/record/scope.js';
import type { OperationRejectedError } from '../../core/errors/errors.js';

/**
 * Options of `@Idempotent()` on a method that is not a handler. Their groups merge
 * with those of its class, and of the module.
 * @typeParam Args - the parameters that `key` declares: all of the method's, or the first ones.
 * @typeParam Fallback - what `onRejected` returns instead of the method's value.
 */
export interface IdempotentMethodOptions<
  Args extends readonly unknown[],
  Fallback = unknown,
> extends ProtocolOptions {
  /**
   * Unique, stable name; records are stored under it. Set it before you rename the class or method.
   * @defaultValue `Class.method`
   */
  readonly operation?: string;
  /** The idempotency key of a call, from its arguments: one per intended operation, the same on every retry. */
  readonly key: (...args: Args) => string;
  /**
   * The caller who owns the key: one part or several, the most general first (tenant, then user). `() => []`: all callers
   * share their keys, because no client chooses them.
   * @defaultValue none: as `() => []`, with a warning at the start if `key` has parameters
   */
  readonly scope?: (...args: Like<Args>) => ScopePart | readonly ScopePart[];
  /**
   * The operation's content, as JSON: another payload under the same key is rejected. `undefined`, a promise, a `Map`
   * or an instance of a class without own members throws {@link IdempotencyOptionsError}, since it would compare
   * nothing: return `null`, plain data, or give the class a `toJSON`. An object whose members are all `undefined`
   * throws {@link ContentNotComparableError}.
   * @defaultValue nothing is compared: every caller with the key gets the outcome
   */
  readonly payload?: (...args: Like<Args>) => unknown;
  /**
   * Called if the method did not run and has no outcome (in progress, used for another payload, outcome unknown, store
   * unavailable, shutting down, no key). Its value or error replaces the {@link OperationRejectedError}. One such
   * function is `delayJob` of nestjs-idempotency/bullmq.
   * @defaultValue the error is thrown
   */
  readonly onRejected?: (
    error: OperationRejectedError,
    ...args: Like<Args>
  ) => Fallback | Promise<Fallback>;
}

/**
 * `Args`, which are inferred from `key`: as a mapped type they are not inferred from other functions. Without
 * `strictFunctionTypes`, TypeScript would choose the least of all. `NoInfer` as a rest parameter takes no function with
 * fewer parameters.
 */
type Like<Args extends readonly unknown[]> = { readonly [Index in keyof Args]: Args[Index] };

/** A decorator for methods that take the parameters of `key` and return a promise. */
export type IdempotentMethodDecorator<Args extends readonly unknown[], Fallback> = <
  Method extends (...args: never) => Promise<unknown>,
>(
  target: object,
  name: string | symbol,
  descriptor: TypedPropertyDescriptor<Method> &
    TakenBy<Parameters<Method>, Args> &
    FallbackFor<Awaited<ReturnType<Method>>, Fallback>,
) => void;

/** Whether a function of `Args` accepts the method's arguments. */
type TakenBy<Given extends readonly unknown[], Args extends readonly unknown[]> = ((
  ...args: Args
) => void) extends (...given: Given) => void
  ? unknown
  : { readonly key: { readonly mustTake: Given } };

/** Whether the method may return what `onRejected` returns. */
type FallbackFor<Value, Fallback> = [Fallback] extends [Value]
  ? unknown
  : { readonly onRejected: { readonly mustGive: Value } };

/** What identifies a call. */
export const IDENTITY_NAMES: readonly string[] = ['key', 'scope', 'payload'];

/** All that a call can have. */
export const CALL_NAMES: readonly string[] = [
  ...IDENTITY_NAMES,
  'operation',
  ...Object.keys(PROTOCOL),
];
