import type { ExecutionContext, NestInterceptor } from '@nestjs/common';
import type { ExternalContextCreator } from '@nestjs/core';
import { isObservable, lastValueFrom } from 'rxjs';
import type { Handler } from './discovery/idempotent.metadata.js';
import { IdempotencyInterceptor } from './idempotency.interceptor.js';

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

/** Classes whose method was replaced. It stays: applications of the same process may start and close at any time. */
const replaced = new WeakSet();

/**
 * Makes Nest call {@link IdempotencyInterceptor} without streams where it is a request's only interceptor. Changes
 * nothing if the method that it would replace is not Nest's own, or does not do in a trial what the replacement does.
 * @param creator - has a consumer of the copy of Nest in use.
 */
export async function useFastPath(creator: ExternalContextCreator): Promise<void> {
  const { interceptorsConsumer: consumer } = creator as unknown as {
    readonly interceptorsConsumer?: InterceptorsConsumer;
  };
  if (typeof consumer !== 'object') return;
  const prototype = Object.getPrototypeOf(consumer) as InterceptorsConsumer;
  const { intercept } = prototype;
  if (replaced.has(prototype) || !isOfNest(prototype) || !(await isAsExpected(consumer))) return;
  // Another application may have started during the trial.
  if (replaced.has(prototype) || prototype.intercept !== intercept) return;
  replaced.add(prototype);
  Object.defineProperty(prototype, 'intercept', {
    ...Object.getOwnPropertyDescriptor(prototype, 'intercept'),
    value: withFastPath(intercept),
  });
}

/** A method of the class as Nest declares it, not a wrapper by another library, which has to see every request. */
function isOfNest(prototype: InterceptorsConsumer): boolean {
  const { intercept, createContext } = prototype;
  return (
    prototype.constructor.name === 'InterceptorsConsumer' &&
    Object.hasOwn(prototype, 'intercept') &&
    typeof intercept === 'function' &&
    intercept.name === 'intercept' &&
    intercept.length === 6 &&
    Function.prototype.toString.call(intercept).startsWith('async intercept(') &&
    typeof createContext === 'function' &&
    createContext.length === 3
  );
}

/** Whether the only interceptor is called with the request's context, and its stream has the value of `next`. */
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
    const result = await consumer.intercept([probe], args, instance, handler, next, 'http');
    if (!isObservable(result) || (await lastValueFrom(result)) !== value) return false;
    const own = consumer.createContext(args, instance, handler);
    own.setType('http');
    return (
      calls === 1 &&
      seen.length === 1 &&
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
    if (interceptors?.length === 1 && type === 'http') {
      const [only] = interceptors;
      if (
        only instanceof IdempotencyInterceptor &&
        only.intercept === IdempotencyInterceptor.declaredIntercept
      ) {
        const context = this.createContext(args, instance, callback);
        context.setType(type);
        const result = only.interceptAlone(context, next);
        if (result !== undefined) return result;
      }
    }
    return original.call(this, interceptors, args, instance, callback, next, type, ...rest);
  };
}
