import type { Lease, RecordKey } from '../../core/record/record.js';
import { isProbeKey } from '../../core/record/record-key.js';
import { compareAndSet, type CompareAndSet } from '../../core/store/compare-and-set.js';
import { IdempotencyStore } from '../../core/store/idempotency-store.js';
import type * as Store from '../../core/record/commands.js';
import type { Finding, StoreObserver, StoreWarning } from '../../core/store/idempotency-store.js';
import { Openings } from '../../core/store/openings.js';
import * as transitions from '../../core/store/record-transitions.js';
import type { TransactionalRecords } from '../../core/store/transactional-records.js';
import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import {
  isExecutor,
  isPostgresPool,
  type PostgresConnections,
  type PostgresExecutor,
  type PostgresPool,
} from '../../transactions/shared/connections.js';
import { deleteExpired, deletionFailed } from './cleanup/delete-expired.js';
import type { DeleteExpired, DeletionReport, ResolvedDeletionOptions } from '../shared/deletion.js';
import { DeletionSchedule, type DeleteFrom } from '../shared/deletion-schedule.js';
import { Deadline } from './connection/deadline.js';
import { policyRemedy } from './connection/error-classification.js';
import { LazyPool, type OwnClient } from './own-pool.js';
import { resolveStoreOptions, type CommonOptions } from './postgres-store-options.js';
import { runMigrations } from './schema/run-migrations.js';
import { loadStatements, sqlStatement, type SqlStatements } from './sql/sql-statements.js';
import { TableName } from './sql/table-name.js';
import { diagnosePostgres } from './diagnosis/diagnose-postgres.js';
import { checkServer } from './diagnosis/start-checks.js';
import { beginRecord } from './statements/begin-record.js';
import { Journal } from './journal.js';
import { recordKeyBytes } from '../shared/record-values.js';
import { RecordTable } from './statements/record-table.js';
import { RecordsInTransaction } from './statements/records-in-transaction.js';
import { StatementRunner } from './statements/statement-runner.js';
import { Subscriptions } from './subscriptions.js';

/** Options of {@link PostgresIdempotencyStore}, which gets its pool; see {@link postgresStore}. */
export interface PostgresIdempotencyStoreOptions extends Omit<CommonOptions, 'push' | 'listenUrl'> {
  /** The connections. The store does not close them. See {@link ExecutorOptions.executor}. */
  readonly client: PostgresPool | PostgresExecutor;

  /** Creates a connection for LISTEN, not connected yet. Without it, waiting duplicates only poll. @internal */
  readonly makeListener?: (() => Promise<OwnClient>) | undefined;

  /** Whether duplicates poll though they should be notified: no address is known for LISTEN. @internal */
  readonly lacksListenUrl?: boolean | undefined;

  /** Loads the driver, for connections that the store opens. @internal */
  readonly loadDriver?: (() => Promise<unknown>) | undefined;

  /** @internal */
  readonly statements?: SqlStatements;

  /** Ends the pool, if the store opened it. @internal */
  readonly closePool?: (() => Promise<void>) | undefined;
}

const FORGET_TIMEOUT_MS = 200;

/** How often a row may be found locked, by statements of other commands also, until it counts as a transaction's. */
const MOST_LOCKED = 3;

export function statementsUnnamed({ message }: Error): StoreWarning {
  return {
    code: 'postgres_statements_unnamed',
    message: `A pooler switches the connection below prepared statements (${message}): the store sends its statements without names from now on, which costs the server more. Set preparedStatements: false, or let the pooler keep them (PgBouncer 1.21 and later: max_prepared_statements).`,
  };
}

function waitersPoll(executor = 'the executor'): StoreWarning {
  return {
    code: 'postgres_waiters_poll',
    message: `Waiting duplicates poll: ${executor} keeps no connection of the application for LISTEN. Set listenUrl to the address of the server, which takes one more connection per process, or push: false, which ends this warning.`,
  };
}

function deletesNothing(table: string): StoreWarning {
  return {
    code: 'postgres_deletes_nothing',
    message: `DELETE changes no row of ${table}, without an error: expired records stay, and the table grows. A policy of row level security hides its rows from DELETE, or a trigger of the table skips them. ${policyRemedy(table)} Or set deleteExpired: false, and delete expired records by other means.`,
  };
}

function deadlineOf(recordKey: RecordKey, { timeoutMs }: { readonly timeoutMs: number }): Deadline {
  return new Deadline(timeoutMs, isProbeKey(recordKey));
}

/** Replies of a completion that stored its outcome. */
const CHANGED: ReadonlySet<Store.CompleteReply['kind']> = new Set(['ok', 'ok_late', 'restored']);

/**
 * Stores each record in one row of a table. Created by {@link postgresStore}. Each change is one conditional statement,
 * evaluated by the server's clock and the current row. If it changes nothing, the store reads the record and lets
 * `record-transitions.ts` decide; if there is something to do by then, the command starts over.
 */
export class PostgresIdempotencyStore extends IdempotencyStore {
  private readonly pool: PostgresConnections;
  private readonly table: TableName;
  private readonly statements: SqlStatements;
  private readonly runner: StatementRunner;
  private readonly journal: Journal | undefined;
  private readonly records: RecordTable;
  private readonly inTransaction: TransactionalRecords;
  private readonly openings = new Openings();
  private subscriptions: Subscriptions | undefined;
  private readonly deletionOptions: ResolvedDeletionOptions;
  private deletion: DeletionSchedule | undefined;
  private deleted = 0;
  /** What the use of connections has shown, by code. */
  private readonly warned = new Map<string, StoreWarning>();
  /** Calls of diagnose() in progress. They report it themselves. */
  private diagnosing = 0;
  private closing: Promise<void> | undefined;

  /** @throws {@link IdempotencyOptionsError} when an option is invalid. */
  constructor(private readonly options: PostgresIdempotencyStoreOptions) {
    super();
    const { client, statements } = options;
    if (!isPostgresPool(client) && !isExecutor(client)) {
      throw new IdempotencyOptionsError(
        'PostgresIdempotencyStore: client must be a Pool of pg 8 or an executor, not a single Client.',
      );
    }
    const { preparedStatements, journal, ...deletion } = resolveStoreOptions(options);
    this.deletionOptions = deletion;
    this.pool = client;
    this.table = new TableName(options);
    this.statements = statements ?? loadStatements(this.table);
    this.runner = new StatementRunner(
      client,
      this.table,
      preparedStatements,
      (error) => {
        this.openings.replyMismatched(error);
      },
      (cause) => {
        this.warn(statementsUnnamed(cause));
      },
    );
    if (client instanceof LazyPool) client.onWarning = this.warn.bind(this);
    if (journal !== false) this.journal = new Journal(this.runner, this.table, journal);
    const journaled =
      statements ??
      (this.journal ? loadStatements(this.table, undefined, this.journal) : undefined);
    this.records = new RecordTable(this.runner, this.statements, journaled);
    this.subscriptions = this.newSubscriptions();
    this.inTransaction = new RecordsInTransaction(
      journaled ?? this.statements,
      this.records,
      this.notifyWaiters.bind(this),
    );
  }

  override get system(): string {
    return 'postgresql';
  }

  override get deletedRecords(): number {
    return this.deleted;
  }

  override async open(observer?: StoreObserver): Promise<readonly StoreWarning[]> {
    this.openings.add(observer);
    if (this.closing !== undefined) {
      this.closing = undefined;
      this.runner.isClosed = false;
      this.subscriptions = this.newSubscriptions();
    }
    const { deleteExpired } = this.deletionOptions;
    try {
      this.journal?.checkService(observer?.service);
      await this.options.loadDriver?.();
      const deletes = deleteExpired !== false;
      const warnings = await checkServer(this.runner, this.table, deletes, this.journal?.table);
      // Closed meanwhile: start no timer.
      if (!this.runner.isClosed) this.startDeletion();
      return this.options.lacksListenUrl === true
        ? [...warnings, waitersPoll(this.runner.executor?.name)]
        : warnings;
    } catch (error) {
      await this.close(observer);
      throw error;
    }
  }

  /**
   * Creates the table, or migrates it to this version. Run it before the application starts, or at its start. Any
   * number of processes may run it at once.
   * @returns the numbers of the migrations that it ran, after those of the records those of the journal, if it is on.
   * @throws {@link StoreConfigurationError} when the user lacks a privilege.
   * @throws {@link StoreUnavailableError} when the server cannot be reached.
   */
  async migrate(): Promise<readonly number[]> {
    await this.options.loadDriver?.();
    const done = await runMigrations(this.pool, this.table);
    return this.journal ? [...done, ...(await runMigrations(this.pool, this.journal.table))] : done;
  }

  /**
   * Deletes expired records in small batches, and then the journal's entries whose retention is over. The store does so by itself unless {@link DeletionOptions.deleteExpired}
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

  override async extend(lease: Lease, command: Store.Extend): Promise<Store.ExtendReply> {
    const deadline = deadlineOf(lease.recordKey, command);
    if (await this.records.extend(lease, command, false, deadline)) return { kind: 'ok' };
    return this.settle<Store.ExtendReply>(lease.recordKey, deadline, {
      decide: (record, nowUs) => transitions.extend(record, lease, command, nowUs),
      write: ({ reply: { kind } }) =>
        this.records.extend(lease, command, kind === 'revived', deadline),
    });
  }

  override async complete(lease: Lease, command: Store.Complete): Promise<Store.CompleteReply> {
    const reply = await this.storeOutcome(lease, command);
    if (CHANGED.has(reply.kind) && command.notify === true) this.notifyWaiters(lease, command);
    return reply;
  }

  override async release(lease: Lease, command: Store.Release): Promise<Store.ReleaseReply> {
    const deadline = deadlineOf(lease.recordKey, command);
    const write = () => this.records.release(lease, command, deadline);
    const reply: Store.ReleaseReply = (await write())
      ? { kind: 'ok' }
      : await this.settle(lease.recordKey, deadline, {
          decide: (record, nowUs) => transitions.release(record, lease, command, nowUs),
          write,
        });
    if (reply.kind === 'ok' && command.notify === true) this.notifyWaiters(lease, command);
    return reply;
  }

  override async inspect(
    recordKey: RecordKey,
    { timeoutMs }: Store.Inspect,
  ): Promise<Store.IdempotencyRecord | undefined> {
    const { record, nowUs } = await this.records.read(recordKey, new Deadline(timeoutMs));
    return transitions.inspect(record, nowUs);
  }

  override async watch(
    recordKey: RecordKey,
    onEnd: () => void,
    { timeoutMs }: Store.Watch,
  ): Promise<Store.StopWatching | undefined> {
    return this.subscriptions?.watch(recordKey, onEnd, timeoutMs);
  }

  override abandoned(command: Store.Abandoned): Promise<Store.AbandonedPage> {
    return this.records.abandoned(command, new Deadline(command.timeoutMs));
  }

  override list(command: Store.List): Promise<Store.RecordPage> {
    return this.records.list(command, new Deadline(command.timeoutMs));
  }

  override async amend(command: Store.Amend): Promise<Store.AmendReply> {
    const { recordKey, notify } = command;
    const deadline = deadlineOf(recordKey, command);
    let timesLocked = 0;
    const reply = await this.settle<Store.AmendReply>(recordKey, deadline, {
      decide: (record, nowUs) => transitions.amend(record, command, nowUs),
      write: async () => {
        const fence = await this.records.amend(command, deadline);
        if (fence !== undefined) return { kind: 'ok', fence };
        timesLocked += 1;
        // The record was as expected before and after: another transaction holds the row.
        return timesLocked > MOST_LOCKED && { kind: 'running', leaseLeftMs: 0 };
      },
    });
    if (reply.kind === 'ok' && notify === true) this.notifyWaiters(command, command);
    return reply;
  }

  override get transactional(): TransactionalRecords {
    return this.inTransaction;
  }

  override async *diagnose(): AsyncGenerator<Finding> {
    const { pool, runner, table, deletionOptions, warned } = this;
    this.diagnosing += 1;
    try {
      await this.options.loadDriver?.();
      yield* diagnosePostgres({
        store: this,
        pool,
        runner,
        table,
        journal: this.journal?.table,
        deletes: deletionOptions.deleteExpired !== false,
        warned: () => warned.values(),
      });
    } finally {
      this.diagnosing -= 1;
    }
  }

  /** As `ForgettingStore`. @internal */
  async forget(recordKey: RecordKey): Promise<StoreWarning | undefined> {
    const { quoted } = this.table;
    const text = `WITH gone AS (DELETE FROM ${quoted} WHERE record_key = $1::bytea RETURNING 1) SELECT concat_ws(' ', $2::text, count(*)) AS reply FROM gone`;
    const deadline = new Deadline(FORGET_TIMEOUT_MS);
    const forgotten = sqlStatement('forget', text);
    const [count] = await this.runner.run(forgotten, [recordKeyBytes(recordKey)], deadline);
    // An earlier try whose reply was lost may have deleted it.
    if (count !== '0' || deadline.mayHaveRun) return undefined;
    return this.deletionOptions.deleteExpired === false ? undefined : deletesNothing(quoted);
  }

  override async close(observer?: StoreObserver): Promise<void> {
    if (this.openings.remove(observer)) await (this.closing ??= this.closeOnce());
  }

  private async closeOnce(): Promise<void> {
    const { deletion, subscriptions } = this;
    this.deletion = undefined;
    this.runner.isClosed = true;
    // At once: an open() in the meantime creates everything anew.
    await Promise.all([deletion?.stop(), subscriptions?.close(), this.options.closePool?.()]);
  }

  /** What a pooler does shows only when it is used. */
  private warn(warning: StoreWarning): void {
    this.warned.set(warning.code, warning);
    if (this.openings.warned(warning) || this.diagnosing > 0) return;
    process.emitWarning(warning.message, {
      type: 'IdempotencyWarning',
      code: 'IDEMPOTENCY_POSTGRES_POOLER',
    });
  }

  private newSubscriptions(): Subscriptions | undefined {
    const { makeListener } = this.options;
    return makeListener && new Subscriptions(makeListener, this.table.channel);
  }

  private startDeletion(): void {
    const { deletionOptions, deleteFrom, openings } = this;
    this.deletion ??= DeletionSchedule.from(deletionOptions, deletionFailed, deleteFrom, openings);
    this.deletion?.start();
  }

  private readonly deleteFrom: DeleteFrom = async (from, options) => {
    const { runner, table, journal } = this;
    const statement = this.statements['delete-expired'];
    const round = await deleteExpired(runner, statement, table, options, from, (records) => {
      this.deleted += records;
    });
    await journal?.deleteOld(from === 0, options);
    return round;
  };

  private async storeOutcome(lease: Lease, command: Store.Complete): Promise<Store.CompleteReply> {
    const { recordKey } = lease;
    const deadline = deadlineOf(recordKey, command);
    if (await this.records.complete(lease, command, false, deadline)) return { kind: 'ok' };
    return this.settle<Store.CompleteReply>(recordKey, deadline, {
      decide: (record, nowUs) => transitions.complete(record, lease, command, nowUs),
      write: ({ reply: { kind } }, { record }) => {
        if (kind === 'restored') return this.records.restore(lease, command, deadline);
        return record?.state === 'released'
          ? this.records.completeReleased(lease, command, deadline)
          : this.records.complete(lease, command, kind === 'ok_late', deadline);
      },
      confirm: async ({ kind }, { record }) => {
        if (kind === 'already') await this.records.confirm(recordKey, deadline);
        if (kind === 'superseded' && record) {
          await this.journal?.superseded(lease, record, deadline);
        }
        return true;
      },
    });
  }

  /** Called after a statement that reads nothing has changed nothing, as it does once an attempt has lost its record. */
  private settle<Reply>(
    recordKey: RecordKey,
    deadline: Deadline,
    step: Pick<CompareAndSet<Reply>, 'decide' | 'write' | 'confirm'>,
  ): Promise<Reply> {
    return compareAndSet({
      ...step,
      read: () => this.records.read(recordKey, deadline),
      again: ({ record }) => deadline.nextRound({ record }),
    });
  }

  /** Best effort, after the end itself: no request waits for it, and duplicates poll in any case. */
  private notifyWaiters(
    { recordKey }: { recordKey: RecordKey },
    { timeoutMs }: { timeoutMs: number },
  ): void {
    if (this.subscriptions === undefined) return;
    const { channel } = this.table;
    this.records.notify(channel, recordKey, new Deadline(timeoutMs)).catch(() => undefined);
  }
}
