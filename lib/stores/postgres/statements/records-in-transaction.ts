import type { Lease } from '../../../core/record/record.js';
import type {
  TransactionalCompletion,
  TransactionalRecords,
} from '../../../core/store/transactional-records.js';
import type { OpenTransaction } from '../../../core/transaction/unit-of-work.js';
import { queryInTransaction } from '../../../transactions/shared/sql-reply.js';
import {
  isSqlTransaction,
  type SqlTransaction,
} from '../../../transactions/shared/sql-transaction.js';
import { StoreConfigurationError } from '../../../core/errors/errors.js';
import { Deadline } from '../connection/deadline.js';
import type { SqlStatements } from '../sql/sql-statements.js';
import { completionValues, leaseValues } from './record-row.js';
import type { RecordTable } from './record-table.js';

type Command<Method extends keyof TransactionalRecords> =
  Parameters<TransactionalRecords[Method]> extends [...unknown[], infer Last] ? Last : never;

/** Other locks last one statement. A longer one is that of a takeover, and other requests need the connection. */
const LOCK_WAIT_MS = 200;

/** Statements in the application's transactions, over its connections. */
export class RecordsInTransaction implements TransactionalRecords {
  /** By the transaction in which the record was locked: its id on the server. */
  private readonly ids = new WeakMap<OpenTransaction, string>();

  /** @param committed - notifies duplicates that wait for the record. */
  constructor(
    private readonly statements: SqlStatements,
    private readonly table: RecordTable,
    readonly committed: TransactionalRecords['committed'],
  ) {}

  async lock(
    transaction: OpenTransaction,
    lease: Lease,
    { maxExecutionMs }: Command<'lock'>,
  ): Promise<boolean> {
    const values = [...leaseValues(lease), maxExecutionMs, LOCK_WAIT_MS];
    const { text } = this.statements.lock;
    const id = (await queryInTransaction(sqlOf(transaction), text, values)).at(-1);
    if (id === undefined) return false;
    this.ids.set(transaction, id);
    return true;
  }

  async complete(
    transaction: OpenTransaction,
    lease: Lease,
    command: Command<'complete'>,
  ): Promise<TransactionalCompletion> {
    const { text } = this.statements['complete-in-transaction'];
    const values = [...completionValues(lease, command), this.ids.get(transaction) ?? null];
    const [word] = await queryInTransaction(sqlOf(transaction), text, values);
    return word === 'stored' || word === 'committed' ? word : 'lost';
  }

  async ended({ recordKey, fence }: Lease, { timeoutMs }: Command<'ended'>): Promise<void> {
    const deadline = new Deadline(timeoutMs);
    for (;;) {
      if (await this.table.isFree(recordKey, fence, deadline)) return;
      const { record } = await this.table.read(recordKey, deadline);
      if (record?.state !== 'in_progress' || record.fence !== fence) return;
      await deadline.nextRound();
    }
  }
}

/** @throws {@link StoreConfigurationError} if it is of another database. */
export function sqlOf(transaction: OpenTransaction): SqlTransaction {
  if (isSqlTransaction(transaction)) return transaction;
  throw new StoreConfigurationError(
    'The transactions of "unitOfWork" have no query(), which PostgreSQL needs: use one of nestjs-idempotency/{pg,drizzle,knex,kysely,prisma,typeorm}, or extend PostgresUnitOfWork.',
  );
}
