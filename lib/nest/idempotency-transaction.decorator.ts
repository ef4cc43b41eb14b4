import { createParamDecorator } from '@nestjs/common';
import { requireIdempotencyTransaction } from '../core/operation/execution-scope.js';

/**
 * Injects the transaction of an operation with `transaction`, as its unit of work provides it: a client of pg, an
 * `EntityManager`, a Prisma client. Services call {@link requireIdempotencyTransaction}.
 * @example `transfer(@Body() order: TransferDto, @IdempotencyTransaction() manager: EntityManager)`
 * @throws {@link NoTransactionError} on a request without a transaction.
 */
export const IdempotencyTransaction = createParamDecorator(() => requireIdempotencyTransaction());
