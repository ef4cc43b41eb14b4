import { PROTOCOL_DEFAULTS, type ProtocolOptions } from '../../core/operation/options.js';
import type { OutcomePolicy } from '../../core/operation/outcome-policy.js';
import type { ScopePart } from '../../core/record/record-key.js';
import type { OperationRejectedError } from '../../core/util/errors.js';
import type { ValueOptions } from '../../transports/call/value-route.js';

/**
 * Options of `@Idempotent()` on a method that handles no requests: of a service, a job's processor, a scheduled task. The
 * protocol's options and `codec` default to those of its class, then to the module's.
 *
 * @typeParam Args - the parameters that `key` declares: all of the method's, or the first ones.
 * @typeParam Fallback - what `onRejected` gives in the place of the method's value.
 */
export interface IdempotentMethodOptions<Args extends readonly unknown[], Fallback = unknown>
  extends ProtocolOptions, ValueOptions {
  /**
   * The operation's stable name, distinct from those of all other operations. Give one of your own before you rename
   * class or method: records are found by it.
   * @defaultValue `Class.method`
   */
  readonly operation?: string;
  /** The idempotency key of a call, from its arguments: one per intended operation, the same on every repetition of it. */
  readonly key: (...args: Args) => string;
  /**
   * Whose key it is, from the arguments: one part or several, the most general first (tenant, then user).
   * @defaultValue nobody's: a key is unique over all calls of the operation
   */
  readonly scope?: (...args: Args) => ScopePart | readonly ScopePart[];
  /**
   * What the operation is about, as JSON: another payload under the same key is refused. A function that returns
   * `undefined`, a promise, a `Map` or an instance of a class without members of its own is an
   * {@link IdempotencyOptionsError}: it would compare nothing. Return `null`, plain data, or give the class a `toJSON`.
   * An object whose members are all `undefined` is a {@link ContentNotComparableError}.
   * @defaultValue nothing is compared: whoever has the key gets the outcome
   */
  readonly payload?: (...args: Args) => unknown;
  /**
   * Which outcomes are kept.
   * @defaultValue what the method returns is kept, what it throws is not
   */
  readonly keep?: OutcomePolicy;
  /**
   * Is asked where the method was not run and there is no outcome either (in progress, used for another payload, outcome
   * unknown, store unavailable, shutting down, no key). What it returns or throws stands in the place of the
   * {@link OperationRejectedError}. `delayJob` of nestjs-idempotency/bullmq is such a function.
   * @defaultValue the error is thrown
   */
  readonly onRejected?: (
    error: OperationRejectedError,
    ...args: Args
  ) => Fallback | Promise<Fallback>;
}

/** A decorator for methods that take what `key` declares, and return a promise. */
export type IdempotentMethodDecorator<Args extends readonly unknown[], Fallback> = <
  Method extends (...args: never) => Promise<unknown>,
>(
  target: object,
  name: string | symbol,
  descriptor: TypedPropertyDescriptor<Method> &
    TakenBy<Parameters<Method>, Args> &
    FallbackFor<Awaited<ReturnType<Method>>, Fallback>,
) => void;

/** Holds where a function of `Args` can be called with what the method is given. */
type TakenBy<Given extends readonly unknown[], Args extends readonly unknown[]> = ((
  ...args: Args
) => void) extends (...given: Given) => void
  ? unknown
  : { readonly key: { readonly mustTake: Given } };

/** Holds where `onRejected` gives what the method may return as well. */
type FallbackFor<Value, Fallback> = [Fallback] extends [Value]
  ? unknown
  : { readonly onRejected: { readonly mustGive: Value } };

/** The options that every call of code that handles no request may have. */
export const METHOD_OPTION_NAMES: readonly string[] = [
  ...Object.keys(PROTOCOL_DEFAULTS),
  'operation',
  'key',
  'scope',
  'payload',
  'keep',
  'codec',
];
