import type { ExecutionContext, NestInterceptor } from '@nestjs/common';
import type { ExternalContextCreator } from '@nestjs/core';
import { isObservable, lastValueFrom } from 'rxjs';
import type { Handler } from './discovery/idempotent.metadata.js';
import { IdempotencyInterceptor } from './idempotency.interceptor.js';
import { callInTurn } from './interceptor-chain.js';

/** Nest's `InterceptorsConsumer`, which calls the interceptors of a request. It is not part of Nest's documented API. */
interface InterceptorsConsumer {
  readonly intercept: Intercept;
  readonly createContext: (
    this: InterceptorsConsumer,
    args: readonly unknown[],
    instance: object,
    callback: Handler,
  ) => HostContext;
}

type Intercept = (
  this: InterceptorsConsumer,
  interceptors: readonly NestInterceptor[] | undefined,
  args: readonly unknown[],
  instance: object,
  callback: Handler,
  next: () => Promise<unknown>,
  type?: string,
  ...rest: unknown[]
) => Promise<unknown>;

type HostContext = ExecutionContext & { setType(type: string): void };

/** What was put in the place of Nest's method. It stays: applications of the same process may start and close at any time. */
const own = new WeakSet<Intercept>();

const NOT_OF_NEST =
  'InterceptorsConsumer.intercept is not the method that Nest declares, another library may have replaced it';
const UNEXPECTED = 'InterceptorsConsumer.intercept does not do in a trial what is expected';

/**
 * Makes Nest call {@link IdempotencyInterceptor} without streams where it is a request's only interceptor, and without
 * Nest's own where it is the innermost. Changes nothing if the method that it would replace is not Nest's own, or does not
 * do in a trial what the replacement does.
 * @param creator - has a consumer of the copy of Nest in use.
 * @returns why it is off; undefined where it is on.
 */
export async function useFastPath(creator: ExternalContextCreator): Promise<string | undefined> {
  const { interceptorsConsumer: consumer } = creator as unknown as {
    readonly interceptorsConsumer?: InterceptorsConsumer;
  };
  if (typeof consumer !== 'object') return NOT_OF_NEST;
  const prototype = Object.getPrototypeOf(consumer) as InterceptorsConsumer;
  const { intercept } = prototype;
  if (own.has(intercept)) return undefined;
  if (!isOfNest(prototype)) return NOT_OF_NEST;
  if (!(await isAsExpected(consumer))) return UNEXPECTED;
  // Another application may have started during the trial, or another library have replaced it.
  if (prototype.intercept !== intercept)
    return own.has(prototype.intercept) ? undefined : NOT_OF_NEST;
  const value = withFastPath(intercept);
  own.add(value);
  Object.defineProperty(prototype, 'intercept', {
    ...Object.getOwnPropertyDescriptor(prototype, 'intercept'),
    value,
  });
  return undefined;
}

/**
 * A method of the class as Nest declares it, not a wrapper by another library, which has to see every request: a wrapper
 * may have the name and the arity of what it wraps, but its text does not stand in the class.
 */
function isOfNest(prototype: InterceptorsConsumer): boolean {
  const { intercept, createContext } = prototype;
  return (
    prototype.constructor.name === 'InterceptorsConsumer' &&
    Object.hasOwn(prototype, 'intercept') &&
    typeof intercept === 'function' &&
    intercept.name === 'intercept' &&
    intercept.length === 6 &&
    textOf(prototype.constructor).includes(textOf(intercept)) &&
    typeof createContext === 'function' &&
    createContext.length === 3
  );
}

const textOf = (declared: unknown): string => Function.prototype.toString.call(declared);

/** Whether interceptors are called with the request's context, each once, and their stream has the value of `next`. */
async function isAsExpected(consumer: InterceptorsConsumer): Promise<boolean> {
  // Any instance and function will do: they are not called.
  const instance = new Map();
  const handler = () => undefined;
  const args = [{}, {}, () => undefined];
  const value = {};
  const seen: ExecutionContext[] = [];
  let calls = 0;
  const next = () => {
    calls += 1;
    return Promise.resolve(value);
  };
  const probe: NestInterceptor = {
    intercept: (context, callHandler) => {
      seen.push(context);
      return callHandler.handle();
    },
  };
  try {
    const result = await consumer.intercept([probe, probe], args, instance, handler, next, 'http');
    if (!isObservable(result) || (await lastValueFrom(result)) !== value) return false;
    const own = consumer.createContext(args, instance, handler);
    own.setType('http');
    return (
      calls === 1 &&
      seen.length === 2 &&
      seen[0] === seen[1] &&
      [...seen, own].every((context) => describes(context, instance, handler, args))
    );
  } catch {
    return false;
  }
}

function describes(
  context: ExecutionContext,
  instance: object,
  handler: Handler,
  args: readonly unknown[],
): boolean {
  return (
    context.getType() === 'http' &&
    context.getClass() === instance.constructor &&
    context.getHandler() === handler &&
    context.getArgs().every((arg, index) => arg === args[index])
  );
}

function withFastPath(original: Intercept): Intercept {
  return function intercept(interceptors, args, instance, callback, next, type, ...rest) {
    const last = interceptors?.at(-1);
    // A wrapper that came later may do something with interceptors or stream: it gets what Nest gives.
    if (
      interceptors !== undefined &&
      type === 'http' &&
      last instanceof IdempotencyInterceptor &&
      last.intercept === IdempotencyInterceptor.declaredIntercept &&
      this.intercept === intercept
    ) {
      const context = this.createContext(args, instance, callback);
      context.setType(type);
      if (interceptors.length === 1) {
        const result = last.interceptAlone(context, next);
        if (result !== undefined) return result;
      } else if (last.isInnermost(context)) {
        const [outermost = last, ...inner] = interceptors;
        return callInTurn(outermost, inner, context, next);
      }
    }
    return original.call(this, interceptors, args, instance, callback, next, type, ...rest);
  };
}
