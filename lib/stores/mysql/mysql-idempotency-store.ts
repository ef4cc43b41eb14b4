import type { Lease, RecordKey } from '../../core/record/record.js';
import { isProbeKey } from '../../core/record/record-key.js';
import { compareAndSet } from '../../core/store/compare-and-set.js';
import type * as Store from '../../core/record/commands.js';
import type { Finding, StoreObserver, StoreWarning } from '../../core/store/idempotency-store.js';
import { Openings } from '../../core/store/openings.js';
import * as transitions from '../../core/store/record-transitions.js';
import {
  TransitionStore,
  type Decide,
  type StepCommand,
} from '../../core/store/transition-store.js';
import type { TransactionalRecords } from '../../core/store/transactional-records.js';
import { resolveOptions } from '../../core/options/option-schema.js';
import type { MysqlConnections } from '../../transactions/shared/mysql-connections.js';
import {
  DELETION,
  type DeleteExpired,
  type DeletionOptions,
  type DeletionReport,
  type ResolvedDeletionOptions,
} from '../shared/deletion.js';
import { DeletionSchedule, type DeleteFrom } from '../shared/deletion-schedule.js';
import { recordKeyBytes } from '../shared/record-values.js';
import { deleteExpired, deletionFailed } from './cleanup.js';
import { MysqlDeadline } from './connection/deadline.js';
import { diagnoseMysql } from './diagnosis/diagnose-mysql.js';
import { checkMysqlServer } from './diagnosis/start-checks.js';
import { runMysqlMigrations } from './schema/run-migrations.js';
import { loadMysqlStatements, type MysqlStatements } from './sql/sql-statements.js';
import { MysqlTable, type MysqlTableOptions } from './sql/table-name.js';
import { beginRecord } from './statements/begin-record.js';
import { MysqlRecordTable } from './statements/record-table.js';
import { MysqlRecordsInTransaction } from './statements/records-in-transaction.js';
import { MysqlRunner } from './statements/statement-runner.js';

/** Options of {@link MysqlIdempotencyStore}, which gets its connections; see {@link mysqlStore}. */
export interface MysqlIdempotencyStoreOptions extends MysqlTableOptions, DeletionOptions {
  /** The connections. The store does not close them. */
  readonly client: MysqlConnections;

  /** Loads the driver, for connections that the store opens. @internal */
  readonly loadDriver?: (() => Promise<unknown>) | undefined;

  /** @internal */
  readonly statements?: MysqlStatements | undefined;

  /** Ends the pool, if the store opened it. @internal */
  readonly closePool?: (() => Promise<void>) | undefined;
}

const FORGET_TIMEOUT_MS = 200;

function deadlineOf(recordKey: RecordKey, { timeoutMs }: { readonly timeoutMs: number }) {
  return new MysqlDeadline(timeoutMs, isProbeKey(recordKey));
}

/**
 * Stores each record in one row of a table of MySQL or MariaDB. Created by {@link mysqlStore}. A first begin and a completion
 * are one statement each. Every other step reads the row, lets `record-transitions.ts` decide, and writes only if the row
 * has not changed since.
 */
export class MysqlIdempotencyStore extends TransitionStore {
  private readonly pool: MysqlConnections;
  private readonly table: MysqlTable;
  private readonly statements: MysqlStatements;
  private readonly runner: MysqlRunner;
  private readonly records: MysqlRecordTable;
  private readonly inTransaction: TransactionalRecords;
  private readonly openings = new Openings();
  private readonly deletionOptions: ResolvedDeletionOptions;
  private deletion: DeletionSchedule | undefined;
  private deleted = 0;
  private closing: Promise<void> | undefined;

  /** @throws {@link IdempotencyOptionsError} when an option is invalid. */
  constructor(private readonly options: MysqlIdempotencyStoreOptions) {
    super();
    const others = { others: Object.keys(options) };
    this.deletionOptions = resolveOptions<DeletionOptions, ResolvedDeletionOptions>(
      'mysqlStore',
      DELETION,
      options,
      others,
    );
    this.pool = options.client;
    this.table = new MysqlTable(options);
    this.statements = options.statements ?? loadMysqlStatements(this.table);
    this.runner = new MysqlRunner(this.pool, this.table, (error) => {
      this.openings.replyMismatched(error);
    });
    this.records = new MysqlRecordTable(this.runner, this.statements);
    this.inTransaction = new MysqlRecordsInTransaction(this.statements, this.records);
  }

  override get system(): string {
    return 'mysql';
  }

  override get deletedRecords(): number {
    return this.deleted;
  }

  override async open(observer?: StoreObserver): Promise<readonly StoreWarning[]> {
    this.openings.add(observer);
    if (this.closing !== undefined) {
      this.closing = undefined;
      this.runner.isClosed = false;
    }
    try {
      await this.options.loadDriver?.();
      const deletes = this.deletionOptions.deleteExpired !== false;
      const warnings = await checkMysqlServer(this.runner, this.table, deletes);
      // Closed meanwhile: start no timer.
      if (!this.runner.isClosed) this.startDeletion();
      return warnings;
    } catch (error) {
      await this.close(observer);
      throw error;
    }
  }

  /**
   * Creates the tables, or migrates them to this version. Run it before the application starts, or at its start. Any
   * number of processes may run it at once.
   * @returns the numbers of the migrations that it ran.
   * @throws {@link StoreConfigurationError} when the user lacks a privilege.
   * @throws {@link StoreUnavailableError} when the server cannot be reached.
   */
  async migrate(): Promise<readonly number[]> {
    await this.options.loadDriver?.();
    return runMysqlMigrations(this.pool, this.table);
  }

  /**
   * Deletes expired records in small batches. The store does so by itself unless {@link DeletionOptions.deleteExpired}
   * is `false`. Returns early while another process is deleting.
   * @throws {@link StoreUnavailableError} or {@link StoreOutcomeUnknownError} when the server does not reply; earlier
   * batches stay deleted.
   */
  async deleteExpired(options: DeleteExpired = {}): Promise<DeletionReport> {
    const { report } = await this.deleteFrom(0, options);
    return report;
  }

  override begin(command: Store.Begin): Promise<Store.BeginReply> {
    return beginRecord(this.records, command, deadlineOf(command.recordKey, command));
  }

  override async complete(lease: Lease, command: Store.Complete): Promise<Store.CompleteReply> {
    const deadline = deadlineOf(lease.recordKey, command);
    if (await this.records.complete(lease, command, deadline)) return { kind: 'ok' };
    const decide: Decide<Store.CompleteReply> = (record, nowUs) =>
      transitions.complete(record, lease, command, nowUs);
    return this.step(lease.recordKey, command, decide, deadline);
  }

  override async inspect(
    recordKey: RecordKey,
    { timeoutMs }: Store.Inspect,
  ): Promise<Store.IdempotencyRecord | undefined> {
    const { record, nowUs } = await this.records.read(recordKey, new MysqlDeadline(timeoutMs));
    return transitions.inspect(record, nowUs);
  }

  override async abandoned(command: Store.Abandoned): Promise<Store.AbandonedPage> {
    const deadline = new MysqlDeadline(command.timeoutMs);
    const { cursor, limit, overMs } = command;
    if (cursor === undefined) {
      for (const recordKey of await this.records.ahead(limit, deadline)) {
        const decide: Decide<unknown> = (record, nowUs) =>
          record === undefined
            ? { reply: undefined, record }
            : transitions.abandoned(record, overMs, nowUs);
        await this.step(recordKey, command, decide, deadline);
      }
    }
    return this.records.abandoned(command, deadline);
  }

  override list(command: Store.List): Promise<Store.RecordPage> {
    return this.records.list(command, new MysqlDeadline(command.timeoutMs));
  }

  override amend(command: Store.Amend): Promise<Store.AmendReply> {
    const { recordKey } = command;
    const deadline = deadlineOf(recordKey, command);
    return compareAndSet<Store.AmendReply, Awaited<ReturnType<MysqlRecordTable['read']>>>({
      read: () => this.records.read(recordKey, deadline),
      decide: (record, nowUs) => transitions.amend(record, command, nowUs),
      write: async ({ record }, read) => {
        const { record: before } = read;
        const isRunning =
          before?.state === 'in_progress' &&
          (await this.records.isLocked(recordKey, before.token, deadline));
        if (isRunning) return { kind: 'running', leaseLeftMs: 0 };
        return this.records.save(recordKey, read, record, deadline);
      },
      again: ({ record }) => deadline.nextRound({ record }),
    });
  }

  override get transactional(): TransactionalRecords {
    return this.inTransaction;
  }

  override async *diagnose(): AsyncGenerator<Finding> {
    await this.options.loadDriver?.();
    const { runner, table } = this;
    const deletes = this.deletionOptions.deleteExpired !== false;
    yield* diagnoseMysql({ store: this, runner, table, deletes });
  }

  /** As `ForgettingStore`. @internal */
  async forget(recordKey: RecordKey): Promise<StoreWarning | undefined> {
    const text = `DELETE FROM ${this.table.quoted} WHERE record_key = ?`;
    await this.runner.write(new MysqlDeadline(FORGET_TIMEOUT_MS), text, [
      recordKeyBytes(recordKey),
    ]);
    return undefined;
  }

  override async close(observer?: StoreObserver): Promise<void> {
    if (this.openings.remove(observer)) await (this.closing ??= this.closeOnce());
  }

  private async closeOnce(): Promise<void> {
    const { deletion } = this;
    this.deletion = undefined;
    this.runner.isClosed = true;
    await Promise.all([deletion?.stop(), this.options.closePool?.()]);
  }

  private startDeletion(): void {
    const { deletionOptions, deleteFrom, openings } = this;
    this.deletion ??= DeletionSchedule.from(deletionOptions, deletionFailed, deleteFrom, openings);
    this.deletion?.start();
  }

  private readonly deleteFrom: DeleteFrom = (from, options) => {
    const { runner, table, statements } = this;
    return deleteExpired({ runner, table, statements }, options, from, (records) => {
      this.deleted += records;
    });
  };

  /** One step of the state machine: reads the record, and writes it if it has not changed since. @internal */
  protected override step<Reply>(
    recordKey: RecordKey,
    command: StepCommand,
    decide: Decide<Reply>,
    deadline = deadlineOf(recordKey, command),
  ): Promise<Reply> {
    return compareAndSet({
      read: () => this.records.read(recordKey, deadline),
      decide,
      write: ({ record }, read) => this.records.save(recordKey, read, record, deadline),
      again: ({ record }) => deadline.nextRound({ record }),
    });
  }
}
