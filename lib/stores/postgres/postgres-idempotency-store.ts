import type { Lease, RecordKey } from '../../core/record/record.js';
import {
  IdempotencyStore,
  type Abandoned,
  type AbandonedPage,
  type Begin,
  type BeginReply,
  type Complete,
  type CompleteReply,
  type Extend,
  type ExtendReply,
  type IdempotencyRecord,
  type Inspect,
  type Release,
  type ReleaseReply,
  type StopWatching,
  type StoreObserver,
  type StoreWarning,
  type Watch,
} from '../../core/store/idempotency-store.js';
import { Openings } from '../../core/store/openings.js';
import * as transitions from '../../core/store/record-transitions.js';
import type { TransactionalRecords } from '../../core/store/transactional-records.js';
import { IdempotencyOptionsError } from '../../core/util/errors.js';
import {
  checkDeletionOptions,
  deleteExpired,
  type DeleteExpired,
  type DeletionOptions,
  type DeletionReport,
} from './cleanup/delete-expired.js';
import { DeletionSchedule, type DeleteFrom } from './cleanup/deletion-schedule.js';
import { Deadline } from './connection/deadline.js';
import { isPostgresPool, type PostgresPool } from './connection/postgres-client.js';
import type { OwnClient } from './own-pool.js';
import { runMigrations } from './schema/run-migrations.js';
import { loadStatements, type SqlStatements } from './sql/sql-statements.js';
import { TableName, type TableOptions } from './sql/table-name.js';
import { checkServer } from './start-checks.js';
import { beginRecord } from './statements/begin-record.js';
import { RecordTable } from './statements/record-table.js';
import { RecordsInTransaction } from './statements/records-in-transaction.js';
import { StatementRunner } from './statements/statement-runner.js';
import { Subscriptions } from './subscriptions.js';

export interface PostgresIdempotencyStoreOptions extends TableOptions, DeletionOptions {
  /** The pool; it stays its owner's. See {@link UserPoolOptions.client}. */
  readonly client: PostgresPool;

  /**
   * Whether statements are prepared, see {@link PostgresStoreOptions.preparedStatements}.
   *
   * @defaultValue true
   */
  readonly preparedStatements?: boolean | undefined;

  /**
   * Makes a connection that only listens, not connected yet; without it nobody is told of anything.
   *
   * @internal
   */
  readonly makeListener?: (() => Promise<OwnClient>) | undefined;

  /**
   * Loads what it takes to open connections of the store's own.
   *
   * @internal
   */
  readonly loadDriver?: (() => Promise<unknown>) | undefined;

  /** @internal */
  readonly statements?: SqlStatements;

  /**
   * What close does besides, for a pool that is the store's own.
   *
   * @internal
   */
  readonly closePool?: () => Promise<void>;
}

/** The replies of a completion that has stored its outcome. */
const CHANGED: ReadonlySet<CompleteReply['kind']> = new Set(['ok', 'ok_late', 'restored']);

/**
 * Keeps each record in one row of a table.
 *
 * Whatever changes a record is one conditional statement that judges by the server's clock and by the row as
 * it stands. Where such a statement finds nothing to change, the record is read, and what that means is left
 * to the state machine of `record-transitions.ts`; should it say that there is something to change after all,
 * because another command came in between, the step starts over.
 *
 * Made by {@link postgresStore}; the class is there for those who wire it up themselves.
 */
export class PostgresIdempotencyStore extends IdempotencyStore {
  private readonly pool: PostgresPool;
  private readonly table: TableName;
  private readonly statements: SqlStatements;
  private readonly runner: StatementRunner;
  private readonly records: RecordTable;
  private readonly inTransaction: TransactionalRecords;
  private readonly openings = new Openings();
  private subscriptions: Subscriptions | undefined;
  private deletion: DeletionSchedule | undefined;
  private closing: Promise<void> | undefined;

  /** @throws {@link IdempotencyOptionsError} when an option cannot work. */
  constructor(private readonly options: PostgresIdempotencyStoreOptions) {
    super();
    const { client, preparedStatements = true, statements } = options;
    if (!isPostgresPool(client)) {
      throw new IdempotencyOptionsError('client must be a Pool of pg 8.');
    }
    this.pool = client;
    this.table = new TableName(options);
    this.statements = statements ?? loadStatements(this.table);
    this.runner = new StatementRunner(client, this.table, preparedStatements, (error) => {
      this.openings.replyMismatched(error);
    });
    this.records = new RecordTable(this.runner, this.statements);
    this.subscriptions = this.newSubscriptions();
    checkDeletionOptions(options);
    this.inTransaction = new RecordsInTransaction(
      this.statements,
      this.records,
      this.notifyWaiters.bind(this),
    );
  }

  override async open(observer?: StoreObserver): Promise<readonly StoreWarning[]> {
    this.openings.add(observer);
    if (this.closing !== undefined) {
      this.closing = undefined;
      this.runner.isClosed = false;
      this.subscriptions = this.newSubscriptions();
    }
    try {
      await this.options.loadDriver?.();
      const warnings = await checkServer(this.runner, this.table);
      // Who closed it meanwhile wants no timer of it.
      if (!this.runner.isClosed) this.startDeletion();
      return warnings;
    } catch (error) {
      await this.close(observer);
      throw error;
    }
  }

  /**
   * Creates the table, or brings it up to this version. Run it before the application starts, or as it
   * starts: any number of processes may do so at once.
   *
   * @returns the numbers of the migrations that were missing and have been run.
   * @throws {@link StoreConfigurationError} when the user may not do it.
   * @throws {@link StoreUnavailableError} when the server cannot be reached.
   */
  async migrate(): Promise<readonly number[]> {
    await this.options.loadDriver?.();
    return runMigrations(this.pool, this.table);
  }

  /**
   * Deletes records that have expired, in small batches. The store does so by itself, see
   * {@link DeletionOptions.deleteExpired}; call it where that is switched off. Where another process is at it,
   * this one leaves it to that one.
   *
   * @throws {@link StoreUnavailableError} or {@link StoreOutcomeUnknownError} when the server does not answer;
   * what was deleted before stays deleted.
   */
  async deleteExpired(options: DeleteExpired = {}): Promise<DeletionReport> {
    const { report } = await this.deleteFrom(0, options);
    return report;
  }

  override begin(command: Begin): Promise<BeginReply> {
    return beginRecord(this.records, command, new Deadline(command.timeoutMs));
  }

  override async extend(lease: Lease, command: Extend): Promise<ExtendReply> {
    const deadline = new Deadline(command.timeoutMs);
    let mayBeOver = false;
    for (;;) {
      if (await this.records.extend(lease, command, mayBeOver, deadline)) {
        return { kind: mayBeOver ? 'revived' : 'ok' };
      }
      const { record, nowUs } = await this.records.read(lease.recordKey, deadline);
      const { reply, record: after } = transitions.extend(record, lease, command, nowUs);
      if (after === record) return reply;
      mayBeOver = reply.kind === 'revived';
      await deadline.nextRound();
    }
  }

  override async complete(lease: Lease, command: Complete): Promise<CompleteReply> {
    const reply = await this.settle(lease, command);
    if (CHANGED.has(reply.kind) && command.notify === true) this.notifyWaiters(lease, command);
    return reply;
  }

  override async release(lease: Lease, command: Release): Promise<ReleaseReply> {
    const deadline = new Deadline(command.timeoutMs);
    for (;;) {
      if (await this.records.release(lease, command, deadline)) {
        if (command.notify === true) this.notifyWaiters(lease, command);
        return { kind: 'ok' };
      }
      const { record, nowUs } = await this.records.read(lease.recordKey, deadline);
      const { reply, record: after } = transitions.release(record, lease, command, nowUs);
      if (after === record) return reply;
      await deadline.nextRound();
    }
  }

  override async inspect(
    recordKey: RecordKey,
    { timeoutMs }: Inspect,
  ): Promise<IdempotencyRecord | undefined> {
    const { record, nowUs } = await this.records.read(recordKey, new Deadline(timeoutMs));
    return transitions.inspect(record, nowUs);
  }

  override async watch(
    recordKey: RecordKey,
    onEnd: () => void,
    { timeoutMs }: Watch,
  ): Promise<StopWatching | undefined> {
    return this.subscriptions?.watch(recordKey, onEnd, timeoutMs);
  }

  override abandoned(command: Abandoned): Promise<AbandonedPage> {
    return this.records.abandoned(command, new Deadline(command.timeoutMs));
  }

  override get transactional(): TransactionalRecords {
    return this.inTransaction;
  }

  override async close(observer?: StoreObserver): Promise<void> {
    if (this.openings.remove(observer)) await (this.closing ??= this.closeOnce());
  }

  private async closeOnce(): Promise<void> {
    const { deletion, subscriptions } = this;
    this.deletion = undefined;
    this.runner.isClosed = true;
    // All of it at once: an opening that comes meanwhile makes everything anew.
    await Promise.all([deletion?.stop(), subscriptions?.close(), this.options.closePool?.()]);
  }

  private newSubscriptions(): Subscriptions | undefined {
    const { makeListener } = this.options;
    return makeListener && new Subscriptions(makeListener, this.table.channel);
  }

  private startDeletion(): void {
    const { deleteExpired: interval = {} } = this.options;
    if (interval === false) return;
    this.deletion ??= new DeletionSchedule(this.deleteFrom, interval, this.options, (warning) =>
      this.openings.warned(warning),
    );
    this.deletion.start();
  }

  private readonly deleteFrom: DeleteFrom = (from, options) => {
    const statement = this.statements['delete-expired'];
    return deleteExpired(this.runner, statement, this.table, options, from);
  };

  private async settle(lease: Lease, command: Complete): Promise<CompleteReply> {
    const deadline = new Deadline(command.timeoutMs);
    let mayBeOver = false;
    for (;;) {
      if (await this.records.complete(lease, command, mayBeOver, deadline)) {
        return { kind: mayBeOver ? 'ok_late' : 'ok' };
      }
      const { record, nowUs } = await this.records.read(lease.recordKey, deadline);
      const { reply, record: after } = transitions.complete(record, lease, command, nowUs);
      if (reply.kind === 'already') await this.records.confirm(lease.recordKey, deadline);
      if (after === record) return reply;
      if (reply.kind === 'restored') {
        if (await this.records.restore(lease, command, deadline)) return reply;
      } else if (record?.state === 'released') {
        if (await this.records.completeReleased(lease, command, deadline)) return reply;
      } else {
        mayBeOver = reply.kind === 'ok_late';
      }
      await deadline.nextRound();
    }
  }

  /** Best effort, after the end itself: nobody waits for it, and who is not told looks by himself. */
  private notifyWaiters({ recordKey }: Lease, { timeoutMs }: { timeoutMs: number }): void {
    if (this.subscriptions === undefined) return;
    const { channel } = this.table;
    this.records.notify(channel, recordKey, new Deadline(timeoutMs)).catch(() => undefined);
  }
}
