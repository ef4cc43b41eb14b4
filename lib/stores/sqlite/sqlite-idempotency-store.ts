import { UNKNOWN_FENCE, type Lease, type RecordKey } from '../../core/record/record.js';
import type * as Store from '../../core/record/commands.js';
import { asError, hasCode, StoreUnavailableError } from '../../core/errors/errors.js';
import type { StoreObserver, StoreWarning } from '../../core/store/idempotency-store.js';
import { Openings } from '../../core/store/openings.js';
import * as transitions from '../../core/store/record-transitions.js';
import {
  TransitionStore,
  type Decide,
  type StepCommand,
} from '../../core/store/transition-store.js';
import { Watchers } from '../../core/store/watchers.js';
import { nodeClock, type Clock, type ClockTimer } from '../../core/util/clock.js';
import { jittered } from '../../core/util/time.js';
import { SqliteFile } from './sqlite-file.js';
import {
  resolveSqliteOptions,
  type ResolvedSqliteOptions,
  type SqliteStoreOptions,
} from './sqlite-store-options.js';
import { StepQueue, type QuickStep, type Step } from './step-queue.js';

interface Done<Reply> {
  readonly reply: Reply;
  readonly isChanged: boolean;
}

/** For processes that start together and migrate the file. */
const OPEN_TIMEOUT_MS = 5_000;
const DELETION_TIMEOUT_MS = 5_000;
const FORGET_TIMEOUT_MS = 200;
/** Some milliseconds, also with large outcomes. */
const DELETED_AT_ONCE = 100;
/** Some milliseconds: the event loop stands still meanwhile. */
const SCANNED_AT_ONCE = 1_000;

/**
 * Keeps records in one file of SQLite, for the processes of one machine. Created by {@link sqliteStore}. A step is one
 * transaction that takes the lock of the file first, and is over before the event loop goes on. The clock is the machine's.
 */
export class SqliteIdempotencyStore extends TransitionStore {
  private readonly options: ResolvedSqliteOptions;
  private readonly file: SqliteFile;
  private readonly steps: StepQueue;
  private readonly watchers = new Watchers<RecordKey>();
  private readonly openings = new Openings();
  private timer: ClockTimer | undefined;
  private deleted = 0;
  private isFailing = false;
  private closed = false;

  /** @throws {@link IdempotencyOptionsError} when an option is invalid. */
  constructor(options: SqliteStoreOptions);
  /** @internal */
  // eslint-disable-next-line @typescript-eslint/unified-signatures -- Users see the other one alone.
  constructor(options: SqliteStoreOptions, clock: Clock);
  constructor(
    options: SqliteStoreOptions,
    private readonly clock: Clock = nodeClock,
  ) {
    super();
    this.options = resolveSqliteOptions(options);
    this.file = new SqliteFile(this.options.path, this.options.synchronous, clock);
    this.steps = new StepQueue(this.file, clock);
  }

  override get system(): string {
    return 'sqlite';
  }

  override get deletedRecords(): number {
    return this.deleted;
  }

  /**
   * Opens the file, creates it, and brings its schema up to date.
   * @throws {@link StoreConfigurationError} if this Node has no SQLite, or the file is not one that it may write to.
   */
  override async open(observer?: StoreObserver): Promise<readonly StoreWarning[]> {
    this.openings.add(observer);
    this.closed = false;
    try {
      await this.run(OPEN_TIMEOUT_MS, () => undefined);
    } catch (error) {
      if (!hasCode(error, 'idempotency_store_unavailable')) {
        await this.close(observer);
        throw error;
      }
      this.scheduleDeletion();
      const message = `Until the file can be used, every idempotent operation is rejected. ${asError(error).message}`;
      return [{ code: 'sqlite_unavailable', message, isOutage: true }];
    }
    // Closed meanwhile: start no timer.
    if (!this.isClosed()) this.scheduleDeletion();
    return [];
  }

  override begin(command: Store.Begin): Promise<Store.BeginReply> {
    const { recordKey, notAfter } = command;
    const decide: Decide<Store.BeginReply> = (record, nowUs) =>
      transitions.begin(record, command, nowUs);
    // Until the lock is held, the clock may pass the instant, and a record that expires then be deleted.
    if (notAfter !== 0) return this.step(recordKey, command, decide);
    return this.step(recordKey, command, decide, (rows, nowUs) => {
      const { reply: first, record: begun } = decide(undefined, nowUs);
      if (begun !== undefined && rows.insert(recordKey, begun)) {
        return { reply: first, isChanged: true };
      }
      const stored = rows.read(recordKey, nowUs);
      const { reply, record } = decide(stored, nowUs);
      return record === stored ? { reply, isChanged: false } : undefined;
    });
  }

  override complete(lease: Lease, command: Store.Complete): Promise<Store.CompleteReply> {
    const decide: Decide<Store.CompleteReply> = (record, nowUs) =>
      transitions.complete(record, lease, command, nowUs);
    const isUsual = command.note === undefined && lease.fence !== UNKNOWN_FENCE;
    if (!isUsual) return this.step(lease.recordKey, command, decide);
    return this.step(lease.recordKey, command, decide, (rows, nowUs) =>
      rows.complete(lease, command, nowUs) ? { reply: { kind: 'ok' }, isChanged: true } : undefined,
    );
  }

  override inspect(
    recordKey: RecordKey,
    { timeoutMs }: Store.Inspect,
  ): Promise<Store.IdempotencyRecord | undefined> {
    return this.run(timeoutMs, (rows, nowUs) =>
      transitions.inspect(rows.read(recordKey, nowUs), nowUs),
    );
  }

  override abandoned({
    overMs,
    limit,
    cursor = '',
    timeoutMs,
  }: Store.Abandoned): Promise<Store.AbandonedPage> {
    return this.run(timeoutMs, (rows, nowUs) => {
      const scanned = rows.listInProgress(cursor, SCANNED_AT_ONCE);
      const records: Store.AbandonedRecord[] = [];
      for (const { recordKey, record } of scanned) {
        const { reply, record: after } = transitions.abandoned(record, overMs, nowUs);
        if (after !== undefined && after !== record) rows.write(recordKey, after);
        if (reply === undefined) continue;
        records.push({ recordKey, ...reply });
        if (records.length === limit) return { records, cursor: recordKey };
      }
      const last = scanned.at(-1);
      const isLast = scanned.length < SCANNED_AT_ONCE || last === undefined;
      return isLast ? { records } : { records, cursor: last.recordKey };
    });
  }

  override list(command: Store.List): Promise<Store.RecordPage> {
    const { keyPrefix = '', cursor = '', limit, maxScanned, timeoutMs } = command;
    const most = Math.min(maxScanned, SCANNED_AT_ONCE);
    return this.run(timeoutMs, (rows, nowUs) => {
      const found = rows.list(cursor, keyPrefix, most);
      const records: Store.ListedRecord[] = [];
      for (const [index, { recordKey, record }] of found.entries()) {
        const inspected = transitions.inspect(record, nowUs);
        if (inspected === undefined || !transitions.isListed(inspected, command)) continue;
        const { outcome: _, ...listed } = inspected;
        records.push({ recordKey, ...listed });
        if (records.length === limit) return { records, scanned: index + 1, cursor: recordKey };
      }
      const last = found.at(-1);
      const isLast = found.length < most || last === undefined;
      const page = { records, scanned: found.length };
      return isLast ? page : { ...page, cursor: last.recordKey };
    });
  }

  /** Notifies of what this process ends. What another one ends shows when the record is polled. */
  override watch(recordKey: RecordKey, onEnd: () => void): Promise<Store.StopWatching> {
    this.watchers.add(recordKey, onEnd);
    return Promise.resolve(() => {
      this.watchers.remove(recordKey, onEnd);
    });
  }

  /**
   * Deletes expired records in small batches, between which other work runs. The store does so by itself unless
   * {@link SqliteStoreOptions.deleteExpired} is `false`.
   * @returns how many.
   * @throws {@link StoreUnavailableError} or {@link StoreOutcomeUnknownError}; earlier batches stay deleted.
   */
  async deleteExpired(): Promise<number> {
    let total = 0;
    for (;;) {
      const deleted = await this.run(DELETION_TIMEOUT_MS, (rows, nowUs) =>
        rows.deleteExpired(Math.floor(nowUs / 1_000), DELETED_AT_ONCE),
      );
      total += deleted;
      this.deleted += deleted;
      if (deleted < DELETED_AT_ONCE) return total;
    }
  }

  /** As `ForgettingStore`. @internal */
  forget(recordKey: RecordKey): Promise<undefined> {
    return this.run(FORGET_TIMEOUT_MS, (rows) => {
      rows.forget(recordKey);
    }) as Promise<undefined>;
  }

  /** The last close closes the file. Until the store is opened again, commands fail with `StoreUnavailableError`. */
  override close(observer?: StoreObserver): Promise<void> {
    return new Promise((resolve) => {
      if (this.openings.remove(observer)) this.closeOnce();
      resolve();
    });
  }

  private closeOnce(): void {
    this.closed = true;
    this.clock.clearTimeout(this.timer);
    this.timer = undefined;
    this.watchers.clear();
    this.steps.end();
    this.file.close();
  }

  private isClosed(): boolean {
    return this.closed;
  }

  /** One step on a record; the watchers are told after its commit. @internal */
  protected override async step<Reply>(
    recordKey: RecordKey,
    { timeoutMs, notify }: StepCommand,
    decide: Decide<Reply>,
    quickStep?: QuickStep<Done<Reply>>,
  ): Promise<Reply> {
    const step: Step<Done<Reply>> = (rows, nowUs) => {
      const stored = rows.read(recordKey, nowUs);
      const { reply, record } = decide(stored, nowUs);
      if (record === undefined || record === stored) return { reply, isChanged: false };
      rows.write(recordKey, record);
      return { reply, isChanged: true };
    };
    const { reply, isChanged } = await this.run(timeoutMs, step, quickStep);
    if (isChanged && notify === true) this.watchers.notify(recordKey);
    return reply;
  }

  private run<Reply>(
    timeoutMs: number,
    step: Step<Reply>,
    quickStep?: QuickStep<Reply & object>,
  ): Promise<Reply> {
    if (this.closed) {
      return Promise.reject(new StoreUnavailableError('The file of sqliteStore is closed.'));
    }
    return this.steps.run(timeoutMs, step, quickStep);
  }

  private scheduleDeletion(): void {
    const { deleteExpired } = this.options;
    if (deleteExpired === false || this.timer !== undefined) return;
    this.timer = this.clock.setTimeout(
      (store) => {
        store.timer = undefined;
        void store.deleteAndReport();
      },
      jittered(deleteExpired.interval, this.clock),
      this,
    );
    this.timer.unref();
  }

  /** Requests do not depend on it: expired records count as absent. */
  private async deleteAndReport(): Promise<void> {
    try {
      await this.deleteExpired();
      this.isFailing = false;
    } catch (error) {
      if (this.closed) return;
      if (!this.isFailing) this.warn(asError(error));
      this.isFailing = true;
    }
    if (!this.closed) this.scheduleDeletion();
  }

  private warn({ message: reason }: Error): void {
    const message = `Expired records are not deleted: ${reason}`;
    if (this.openings.warned({ code: 'sqlite_deletion_failed', message })) return;
    process.emitWarning(message, {
      type: 'IdempotencyWarning',
      code: 'IDEMPOTENCY_SQLITE_DELETION',
    });
  }
}

/**
 * Stores records in one file of SQLite, by `node:sqlite` (Node 22.13 or later), for the processes of one machine. The file and
 * its schema are made at the start.
 * @example
 * ```ts
 * IdempotencyModule.forRoot({ service: 'shop', store: sqliteStore({ path: '/var/lib/shop/idempotency.db' }) })
 * ```
 * @throws {@link IdempotencyOptionsError} when an option is invalid.
 */
export function sqliteStore(options: SqliteStoreOptions): SqliteIdempotencyStore {
  return new SqliteIdempotencyStore(options);
}
