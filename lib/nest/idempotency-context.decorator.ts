import { createParamDecorator } from '@nestjs/common';
import { requireIdempotencyContext } from '../core/idempotency-context.js';

/**
 * Gives a handler the context of its own attempt: key, scope, attempt, isTakeover, fencingToken, signal.
 * On a route where the key may be absent, ask `currentIdempotencyContext()` instead.
 *
 * @throws {@link NoIdempotencyContextError} on a request that is not protected.
 */
export const IdempotencyContext = createParamDecorator(() => requireIdempotencyContext());
