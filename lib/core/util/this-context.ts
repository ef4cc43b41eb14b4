import { AsyncResource } from 'node:async_hooks';

/**
 * `work`, in the async context of now, whatever that of its caller. An interceptor opens one around `next.handle()`, and
 * Nest calls all that is inside in it; but who subscribes to the stream is outside of it again.
 */
export function inThisContext<Args extends unknown[], Result>(
  work: (...args: Args) => Result,
): (...args: Args) => Result {
  const context = new AsyncResource('IdempotencyContext');
  return (...args) => context.runInAsyncScope(work, undefined, ...args);
}
