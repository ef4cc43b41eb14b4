import { createParamDecorator } from '@nestjs/common';
import type { IdempotencyContext as OperationContext } from '../core/idempotency-context.js';
import { requireIdempotencyContext } from '../core/running-operation.js';

/**
 * Gives a handler the context of its own attempt: key, scope, attempt, isTakeover, fencingToken, signal.
 * On a route where the key may be absent, ask `currentIdempotencyContext()` instead.
 *
 * @example `charge(@IdempotencyContext() { isTakeover, signal }: IdempotencyContext)`
 * @throws {@link NoIdempotencyContextError} on a request that is not protected.
 */
export const IdempotencyContext = createParamDecorator(() => requireIdempotencyContext());

/** What {@link IdempotencyContext:variable} gives. */
export type IdempotencyContext = OperationContext;
