import type { RefundDto } from './refund.js';

/** What `prisma generate` declares of the model `Refund`, as far as the example uses it. */
export interface TransactionClient {
  readonly refund: { create(args: { data: RefundDto }): PromiseLike<RefundDto & { id: number }> };
  $queryRawUnsafe<Result>(text: string, ...values: unknown[]): PromiseLike<Result>;
}

export interface Client extends TransactionClient {
  $transaction<Result>(
    work: (transaction: TransactionClient) => Promise<Result>,
    options?: object,
  ): Promise<Result>;
  $disconnect(): Promise<void>;
}
