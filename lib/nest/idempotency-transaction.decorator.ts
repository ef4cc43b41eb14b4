import { createParamDecorator } from '@nestjs/common';
import { requireIdempotencyTransaction } from '../core/operation/execution-scope.js';

/**
 * Gives a handler the transaction of its `transactional` operation, as the unit of work gives it: a client of pg, an
 * `EntityManager`, a Prisma client. Services below ask {@link requireIdempotencyTransaction}.
 *
 * @example `transfer(@Body() order: TransferDto, @IdempotencyTransaction() manager: EntityManager)`
 * @throws {@link NoTransactionError} on a request that has none.
 */
export const IdempotencyTransaction = createParamDecorator(() => requireIdempotencyTransaction());
