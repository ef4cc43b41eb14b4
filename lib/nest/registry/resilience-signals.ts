import { Injectable, type CallHandler } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import { isObject } from '../../core/options/option-checks.js';
import { executionScope, ExecutionScope } from '../../core/operation/execution-scope.js';

/**
 * The provider by which `@nestjs/resilience` shows the attempt that runs, and which its `@Signal()` reads. By names and
 * shape: the package is not imported, and its classes are those of the application's copy.
 */
interface ResilienceContext {
  readonly signal: AbortSignal | undefined;
  readonly attempt: number | undefined;
  /** Runs `body` as an attempt with this signal. */
  run<Result>(
    scope: { readonly signal: AbortSignal; readonly attempt: number | undefined },
    body: () => Result,
  ): Result;
}

const MODULE = 'ResilienceModule';
const PROVIDER = 'ResilienceContext';

/**
 * Makes one signal of an operation's own and that of the resilience attempt around its handler: both `@Signal()` and
 * `@IdempotencyContext()` give one that either aborts. Without that module, nothing.
 */
@Injectable()
export class ResilienceSignals {
  private readonly provider: { readonly instance: unknown } | undefined;

  constructor(modules: ModulesContainer) {
    // Nest has read all modules before it creates the first instance.
    const module = [...modules.values()].find(({ metatype }) => metatype.name === MODULE);
    this.provider = [...(module?.providers ?? [])].find(
      ([token]) => typeof token === 'function' && token.name === PROVIDER,
    )?.[1];
  }

  /** What to warn of: the module is there, but not as it is known. */
  get mistake(): string | undefined {
    if (this.provider === undefined || this.attempts !== undefined) return undefined;
    return `${PROVIDER} of ${MODULE} has no "signal" or no run(): its signals and those of idempotent operations are not linked, and a handler that is given up, or has lost its lease, sees only one of them. Pass both to what the handler calls, and look for a newer version of nestjs-idempotency.`;
  }

  /** `next`, whose handler gets the linked signal. */
  linked(next: CallHandler): CallHandler {
    const { attempts } = this;
    return attempts === undefined ? next : { handle: () => handleLinked(attempts, next) };
  }

  private get attempts(): ResilienceContext | undefined {
    const instance = this.provider?.instance;
    const isKnown = isObject(instance) && 'signal' in instance && isFunction(instance, 'run');
    return isKnown ? (instance as unknown as ResilienceContext) : undefined;
  }
}

function isFunction(instance: object, name: string): boolean {
  return typeof (instance as Readonly<Record<string, unknown>>)[name] === 'function';
}

/** Inside of both interceptors, and before the parameters of the handler are made. */
function handleLinked(attempts: ResilienceContext, next: CallHandler) {
  const operation = executionScope.getStore();
  // It runs unprotected.
  if (!(operation instanceof ExecutionScope)) return next.handle();
  // At each call: an attempt of its own has a signal of its own.
  operation.linkSignal = (own) => attempts.signal ?? own;
  const own = operation.ownSignal;
  const { signal: theirs, attempt } = attempts;
  const signal = theirs === undefined ? own : AbortSignal.any([own, theirs]);
  return attempts.run({ signal, attempt }, () => next.handle());
}
