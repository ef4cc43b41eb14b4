import { setTimeout as delay } from 'node:timers/promises';
import type { CallHandler, ExecutionContext, NestInterceptor, Type } from '@nestjs/common';
import { currentIdempotencyContext } from 'nestjs-idempotency';
import type { ProtocolOptions } from '../../test/support/internals/core.js';
import { map, race, timer, type Observable } from 'rxjs';

/** What the operations of a soak do; each transport has one of each kind, of that name. */
export const KINDS = [
  'plain',
  /** Takes so long that its duplicates wait for it. */
  'slow',
  /** Its duplicates do not wait that long. */
  'hasty',
  /** Takes longer than an inner interceptor waits. */
  'inner',
  /** Takes longer than an outer interceptor waits. */
  'outer',
  /** Must not run if an earlier attempt has not ended. */
  'denied',
  'failing',
  /** Fails, and its failure is kept. */
  'declined',
  /** Finds the result of an earlier attempt. */
  'recovered',
] as const;

export type Kind = (typeof KINDS)[number];

export interface Order {
  readonly kind: Kind;
  readonly key: string;
  readonly amount: number;
}

const WORK_MS = 25;
const TIMEOUT_MS = 10;
const TEXT = 'x'.repeat(200);
/** A gateway's response, and a value for all others. */
const FOUND = { event: 'done', data: 'found' };

/** Short, so that abandoned attempts soon end. */
const COMMON = {
  duplicates: { mode: 'wait', timeout: 300, retryAfter: 20 },
  storeErrors: { whenUnavailable: 'execute', commandTimeout: 1_000, saveTimeout: 30 },
  lease: { duration: 1_000, maxExecution: 2_000 },
  outcome: { retention: 60_000 },
} as const;

/** The options of the operation of this kind. */
export function optionsOf(kind: Kind): ProtocolOptions & { caller: { anonymous: 'shared' } } {
  return {
    ...COMMON,
    caller: { anonymous: 'shared' },
    ...(kind === 'hasty' && { duplicates: { ...COMMON.duplicates, timeout: TIMEOUT_MS } }),
    ...(kind === 'denied' && { lease: { ...COMMON.lease, onTakeover: 'reject' } }),
    ...(kind === 'declined' && { outcome: { ...COMMON.outcome, keep: () => true } }),
    ...(kind === 'recovered' && {
      lease: { ...COMMON.lease, onTakeover: () => ({ value: FOUND }) },
    }),
  };
}

export async function work({ kind, amount }: Pick<Order, 'kind' | 'amount'>): Promise<string> {
  // As code that takes a signal does.
  const signal = currentIdempotencyContext()?.signal;
  const onAbort = () => undefined;
  signal?.addEventListener('abort', onAbort);
  if (kind !== 'plain' && kind !== 'denied') await delay(WORK_MS);
  signal?.removeEventListener('abort', onAbort);
  if (kind === 'failing' || kind === 'declined') throw new Error('planned');
  return `${kind} ${amount} ${TEXT}`;
}

/** Completes with the first emission, in place of what takes too long. */
export async function withShortTimeout<T>(working: Promise<T>): Promise<T | undefined> {
  working.catch(() => undefined);
  return Promise.race([working, delay(TIMEOUT_MS, undefined)]);
}

function givingUp(next: CallHandler, early: unknown): Observable<unknown> {
  return race(next.handle(), timer(TIMEOUT_MS).pipe(map(() => early)));
}

/** Inside the idempotency interceptor, for the operation of that name. */
export const inner = (early: unknown): NestInterceptor => ({
  intercept: (_, next) => givingUp(next, early),
});

/** Outside the idempotency interceptor, for all operations of a transport. */
export const outer = (early: unknown): NestInterceptor => ({
  intercept: (context: ExecutionContext, next) =>
    context.getHandler().name === 'outer' ? givingUp(next, early) : next.handle(),
});

/**
 * Gives a class a method for each kind.
 *
 * @param decorate - the decorators of one, the lowest first.
 */
export function addOperations(
  { prototype }: Type<object>,
  methodOf: (kind: Kind) => (...args: never[]) => unknown,
  decorate: (kind: Kind) => readonly (MethodDecorator | ParameterDecorator[])[],
): void {
  for (const kind of KINDS) {
    const method = methodOf(kind);
    // Its name is that of the operation.
    const value = { [kind]: (...args: never[]) => method(...args) }[kind];
    const descriptor: PropertyDescriptor = { value, writable: true, configurable: true };
    Object.defineProperty(prototype, kind, descriptor);
    for (const decorator of decorate(kind)) {
      if (Array.isArray(decorator)) {
        decorator.forEach((ofParameter, index) => ofParameter(prototype, kind, index));
      } else {
        decorator(prototype, kind, descriptor);
        Object.defineProperty(prototype, kind, descriptor);
      }
    }
  }
}
