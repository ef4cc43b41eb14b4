import { jitteredPause } from '../../core/pause.js';
import type { Lease } from '../../core/record.js';
import type { TransactionalRecords } from '../../core/transactional-records.js';
import type { OpenTransaction } from '../../core/unit-of-work.js';
import { CommandBudget } from './command-budget.js';
import type { RecordTable } from './record-table.js';
import { completionValues, leaseValues } from './sql-values.js';
import type { SqlStatements } from './sql-statements.js';

type Command<Method extends keyof TransactionalRecords> =
  Parameters<TransactionalRecords[Method]> extends [...unknown[], infer Last] ? Last : never;

/** Whoever else holds the row does so for one statement: a begin that looks whether it is held, say. */
const LOCK_ATTEMPTS = 5;
const LOCK_PAUSE_MS = 10;

/** The statements that run in the application's transactions, over its connections. */
export class RecordsInTransaction implements TransactionalRecords {
  private readonly lockText: string;
  private readonly completeText: string;

  /** @param committed - tells those who watch the record. */
  constructor(
    statements: SqlStatements,
    private readonly table: RecordTable,
    readonly committed: TransactionalRecords['committed'],
  ) {
    this.lockText = statements.lock.text;
    // Not every library says how many rows a statement has changed.
    this.completeText = `${statements.complete.text}\nRETURNING 1 AS stored`;
  }

  async lock(
    transaction: OpenTransaction,
    lease: Lease,
    { maxExecutionMs }: Command<'lock'>,
  ): Promise<boolean> {
    const values = [...leaseValues(lease), maxExecutionMs];
    for (let attempt = 1; ; attempt += 1) {
      const rows = await transaction.query(this.lockText, values);
      if (rows.length > 0) return true;
      if (attempt === LOCK_ATTEMPTS) return false;
      await jitteredPause(LOCK_PAUSE_MS);
    }
  }

  async complete(
    transaction: OpenTransaction,
    lease: Lease,
    command: Command<'complete'>,
  ): Promise<boolean> {
    const values = [...completionValues(lease, command), true];
    return (await transaction.query(this.completeText, values)).length > 0;
  }

  async ended({ recordKey, fence }: Lease, { timeoutMs }: Command<'ended'>): Promise<void> {
    const budget = new CommandBudget(timeoutMs);
    for (;;) {
      if (await this.table.isFree(recordKey, fence, budget)) return;
      const { record } = await this.table.look(recordKey, budget);
      if (record?.state !== 'in_progress' || record.fence !== fence) return;
      await budget.nextRound();
    }
  }
}
