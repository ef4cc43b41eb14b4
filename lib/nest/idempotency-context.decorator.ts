import { createParamDecorator } from '@nestjs/common';
import { requireIdempotencyContext } from '../core/operation/execution-scope.js';
import type { IdempotencyContext as OperationContext } from '../core/operation/idempotency-context.js';

/**
 * Injects the context of the handler's own attempt: key, scope, attempt, isTakeover, fencingToken, signal. On a route
 * where the key is optional, call `currentIdempotencyContext()` instead.
 * @example `charge(@IdempotencyContext() { isTakeover, signal }: IdempotencyContext)`
 * @throws {@link NoIdempotencyContextError} on a request that is not protected.
 */
export const IdempotencyContext = createParamDecorator(() => requireIdempotencyContext());

/** What {@link IdempotencyContext:variable} injects. */
export type IdempotencyContext = OperationContext;
