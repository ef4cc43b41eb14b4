import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import { checkService, checkWriter } from '../../core/store/journal-options.js';
import type { Lease, StoredRecord } from '../../core/record/record.js';
import type { DeleteExpired } from '../shared/deletion.js';
import { deleteExpired } from './cleanup/delete-expired.js';
import type { Deadline } from './connection/deadline.js';
import type { PostgresJournal } from './postgres-journal.js';
import { loadJournalStatements, type JournalTable } from './sql/sql-statements.js';
import { TableName } from './sql/table-name.js';
import { recordKeyBytes } from '../shared/record-values.js';
import type { StatementRunner } from './statements/statement-runner.js';

/** The journal of a table of records: what no statement on a record writes. */
export class Journal implements JournalTable {
  readonly table: TableName;
  private readonly statements;
  /** Seconds of the server's clock: what is older has been deleted. */
  private reached = 0;

  /** @throws {@link IdempotencyOptionsError} if it does not say who writes it, or is the table of the records. */
  constructor(
    private readonly runner: StatementRunner,
    records: TableName,
    readonly options: PostgresJournal,
  ) {
    checkWriter('postgresStore', options);
    this.table = new TableName({ schema: records.schema, table: options.table }, 'journal');
    if (this.table.quoted === records.quoted) {
      throw new IdempotencyOptionsError(
        'postgresStore: the options "table" and "journal.table" name one table. Give the journal another one.',
      );
    }
    this.statements = loadJournalStatements(this);
  }

  /** @throws {@link IdempotencyOptionsError} if the store is opened by an application with another name. */
  checkService(service: string | undefined): void {
    checkService('postgresStore', this.options, service);
  }

  /** Adds the entry of an attempt whose outcome gave way to that of `record`. */
  async superseded(
    { recordKey, token, fence }: Lease,
    record: StoredRecord,
    deadline: Deadline,
  ): Promise<void> {
    const { state, attempt, fingerprint, note = null } = record;
    const values = [recordKeyBytes(recordKey), token, state, fence, attempt, fingerprint, note];
    await this.runner.run(this.statements.superseded, values, deadline);
  }

  /** Deletes the entries whose retention is over. @param isFromOldest - also those that an earlier round missed. */
  async deleteOld(isFromOldest: boolean, options: DeleteExpired): Promise<void> {
    const { runner, statements, table } = this;
    const from = isFromOldest ? 0 : this.reached;
    const statement = statements['delete-expired'];
    const { reached } = await deleteExpired(
      runner,
      statement,
      table,
      options,
      from,
      () => undefined,
    );
    this.reached = Math.max(this.reached, reached);
  }
}
