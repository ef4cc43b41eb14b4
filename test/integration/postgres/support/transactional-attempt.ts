import {
  type Begin,
  DeferredTransaction,
  type IsolationLevel,
  type OpenTransaction,
  type TransactionEnd,
  type UnitOfWork,
  type Lease,
  nodeClock,
} from '../../../support/internals/core.js';
import type { PostgresIdempotencyStore } from 'nestjs-idempotency/postgres';
import type { TransactionalCompletion } from 'nestjs-idempotency/store';
import type { SqlTransaction } from 'nestjs-idempotency/transactions';
import { beginCommand, completeCommand, leaseOf } from '../../../support/stores/commands.js';

const TIMEOUT_MS = 30_000;

type LockingTransaction<Handle> = DeferredTransaction & {
  readonly transaction: SqlTransaction<Handle>;
};

/** Runs an attempt with a store and a unit of work, without the engine. */
export class TransactionalAttempt<Handle> {
  constructor(
    private readonly store: Pick<PostgresIdempotencyStore, 'begin' | 'transactional'>,
    private readonly unitOfWork: UnitOfWork<Handle>,
    private readonly maxExecutionMs = TIMEOUT_MS,
  ) {}

  /** @returns the lease of a new key. */
  async begin(changes: Partial<Begin> = {}): Promise<Lease> {
    const begin = beginCommand({ timeoutMs: TIMEOUT_MS, ...changes });
    const reply = await this.store.begin(begin);
    if (!('fence' in reply)) throw new Error(`begin returned ${reply.kind}`);
    return leaseOf(begin, reply.fence);
  }

  /** @returns the transaction that has locked the record. */
  async open(lease: Lease, isolation?: IsolationLevel): Promise<LockingTransaction<Handle>> {
    const opened: DeferredTransaction = await DeferredTransaction.open(
      this.unitOfWork,
      { isolation, timeoutMs: TIMEOUT_MS },
      (transaction) => this.lock(transaction, lease),
      TIMEOUT_MS,
      nodeClock,
    );
    return opened as LockingTransaction<Handle>;
  }

  commit(deferred: DeferredTransaction, lease: Lease): Promise<TransactionEnd> {
    return deferred.commit(async (transaction) => {
      const completion = await this.complete(transaction, lease);
      if (completion !== 'stored') throw new Error(`The outcome was not stored: ${completion}`);
    });
  }

  complete(
    transaction: OpenTransaction,
    lease: Lease,
    note?: string,
  ): Promise<TransactionalCompletion> {
    return this.store.transactional.complete(transaction, lease, completeCommand({ note }));
  }

  private async lock(transaction: OpenTransaction, lease: Lease): Promise<void> {
    const { maxExecutionMs } = this;
    if (!(await this.store.transactional.lock(transaction, lease, { maxExecutionMs }))) {
      throw new Error('The record was not locked');
    }
  }
}
