import { setImmediate } from 'node:timers/promises';
import type { Lease, Outcome, RecordKey, StoredRecord } from '../../core/record/record.js';
import { IdempotencyStore } from '../../core/store/idempotency-store.js';
import type * as Store from '../../core/store/idempotency-store.js';
import { Openings } from '../../core/store/openings.js';
import * as transitions from '../../core/store/record-transitions.js';
import { StoreUnavailableError } from '../../core/util/errors.js';
import { Watchers } from '../../core/util/listeners.js';
import {
  integer,
  isFunction,
  of,
  resolveOptions,
  type Defaulted,
  type Schema,
} from '../../core/util/option-schema.js';
import { ExpiryQueue } from './expiry-queue.js';

export interface MemoryStoreOptions {
  /**
   * Maximum number of records. At the maximum, `begin` of a key without a record is rejected with
   * `StoreUnavailableError`: to drop a live record would let its operation run again. The outcome of an operation that
   * has run is always stored. 100 000 take about 50 MB plus the outcomes' bodies.
   * @defaultValue 100_000, from 1 to 9_007_199_254_740_991
   */
  readonly maxRecords?: number | undefined;
  /** The store's clock: milliseconds since the epoch. @defaultValue `Date.now` */
  readonly now?: (() => number) | undefined;
}

type ResolvedOptions = Defaulted<MemoryStoreOptions>;

export const OPTIONS: Schema<MemoryStoreOptions, ResolvedOptions> = {
  maxRecords: integer({ default: 100_000, min: 1, max: Number.MAX_SAFE_INTEGER }),
  now: of('a function', isFunction, { default: () => Date.now(), defaultText: '`Date.now`' }),
};

/** Records per iteration of the event loop: some milliseconds. */
const SCANNED_AT_ONCE = 10_000;

/** Expired records that each command deletes: more than a command can add, so that none accumulate. */
const SWEPT_PER_COMMAND = 16;

/**
 * Keeps records in this process: for development, tests, and single-process services that may lose all records when
 * they end. Every command is synchronous, so its `timeoutMs` never passes; later commands delete expired records.
 */
export class MemoryIdempotencyStore extends IdempotencyStore {
  private readonly options: ResolvedOptions;
  private readonly records = new Map<RecordKey, StoredRecord>();
  private readonly expiry = new ExpiryQueue<RecordKey>();
  private readonly watchers = new Watchers<RecordKey>();
  private readonly openings = new Openings();
  private closed = false;

  /** @throws `IdempotencyOptionsError` when an option is out of its range. */
  constructor(options: MemoryStoreOptions = {}) {
    super();
    this.options = resolveOptions('memoryStore', OPTIONS, options);
  }

  override open(observer?: Store.StoreObserver): Promise<readonly Store.StoreWarning[]> {
    this.openings.add(observer);
    this.closed = false;
    if (process.env.NODE_ENV !== 'production') return Promise.resolve([]);
    return Promise.resolve([
      {
        code: 'memory_store_in_production',
        message:
          'THE MEMORY STORE RUNS IN PRODUCTION: other processes do not see its records, and a restart loses them all: operations will run twice. Use a store that outlives the process, such as redisStore().',
      },
    ]);
  }

  begin(command: Store.Begin): Promise<Store.BeginReply> {
    return this.step(({ now, nowUs }) => {
      const { recordKey } = command;
      const stored = this.records.get(recordKey);
      const { reply, record } = transitions.begin(stored, command, nowUs);
      if (stored === undefined && record !== undefined) this.makeRoom(now);
      this.write(recordKey, stored, record);
      return 'outcome' in reply ? { ...reply, outcome: copyOf(reply.outcome) } : reply;
    });
  }

  extend(lease: Lease, command: Store.Extend): Promise<Store.ExtendReply> {
    return this.step(({ nowUs }) => {
      const stored = this.records.get(lease.recordKey);
      const { reply, record } = transitions.extend(stored, lease, command, nowUs);
      this.write(lease.recordKey, stored, record);
      return reply;
    });
  }

  complete(lease: Lease, command: Store.Complete): Promise<Store.CompleteReply> {
    return this.step(({ nowUs }) => {
      const stored = this.records.get(lease.recordKey);
      const own = { ...command, outcome: copyOf(command.outcome) };
      const { reply, record } = transitions.complete(stored, lease, own, nowUs);
      this.write(lease.recordKey, stored, record);
      if (command.notify === true && record !== stored) this.watchers.notify(lease.recordKey);
      return 'outcome' in reply ? { ...reply, outcome: copyOf(reply.outcome) } : reply;
    });
  }

  release(lease: Lease, command: Store.Release): Promise<Store.ReleaseReply> {
    return this.step(({ nowUs }) => {
      const stored = this.records.get(lease.recordKey);
      const { reply, record } = transitions.release(stored, lease, command, nowUs);
      this.write(lease.recordKey, stored, record);
      if (command.notify === true && record !== stored) this.watchers.notify(lease.recordKey);
      return reply;
    });
  }

  inspect(recordKey: RecordKey): Promise<Store.IdempotencyRecord | undefined> {
    return this.step(({ nowUs }) => {
      const record = transitions.inspect(this.records.get(recordKey), nowUs);
      return record?.outcome ? { ...record, outcome: copyOf(record.outcome) } : record;
    });
  }

  override async abandoned({
    overMs,
    limit,
    cursor = '',
  }: Store.Abandoned): Promise<Store.AbandonedPage> {
    let nowUs = await this.clockUs();
    const records: Store.AbandonedRecord[] = [];
    let scanned = 0;
    for (const [recordKey, stored] of this.records) {
      scanned += 1;
      if (recordKey <= cursor) continue;
      const { reply, record } = transitions.abandoned(stored, overMs, nowUs);
      this.write(recordKey, stored, record);
      if (reply !== undefined) records.push({ recordKey, ...reply });
      if (scanned % SCANNED_AT_ONCE === 0) {
        await setImmediate();
        nowUs = await this.clockUs();
      }
    }
    // Sorted by key, so that a page ends at the same place whatever records are added or deleted.
    const page = records.sort(byKey).slice(0, limit);
    const last = page.at(-1);
    const isLast = records.length <= limit || last === undefined;
    return isLast ? { records: page } : { records: page, cursor: last.recordKey };
  }

  override watch(recordKey: RecordKey, onEnd: () => void): Promise<Store.StopWatching> {
    this.watchers.add(recordKey, onEnd);
    return Promise.resolve(() => {
      this.watchers.remove(recordKey, onEnd);
    });
  }

  /**
   * The last close deletes every record. Until the store is opened again, commands fail with `StoreUnavailableError`.
   */
  close(observer?: Store.StoreObserver): Promise<void> {
    if (!this.openings.remove(observer)) return Promise.resolve();
    this.closed = true;
    this.clear();
    this.watchers.clear();
    return Promise.resolve();
  }

  /** Deletes every record, for example between two tests. */
  clear(): void {
    this.records.clear();
    this.expiry.clear();
  }

  /** Deletes a record, unless its attempt is in progress. */
  protected forgetEnded(recordKey: RecordKey): void {
    if (this.records.get(recordKey)?.state !== 'in_progress') this.records.delete(recordKey);
  }

  /** Number of records, including expired ones that no command has deleted yet. */
  get size(): number {
    return this.records.size;
  }

  private clockUs(): Promise<number> {
    return this.step((clock) => clock.nowUs);
  }

  private step<Reply>(run: (clock: { now: number; nowUs: number }) => Reply): Promise<Reply> {
    return new Promise((resolve) => {
      if (this.closed) throw new StoreUnavailableError('The memory store is closed.');
      const now = Math.floor(this.options.now());
      const reply = run({ now, nowUs: now * 1000 });
      // Last, so that an expired record still passes its fence to the next attempt.
      this.sweep(now);
      resolve(reply);
    });
  }

  private write(
    recordKey: RecordKey,
    stored: StoredRecord | undefined,
    record: StoredRecord | undefined,
  ): void {
    if (record === undefined || record === stored) return;
    this.records.set(recordKey, record);
    this.expiry.set(recordKey, record.expiresAt);
  }

  private makeRoom(now: number): void {
    if (this.records.size >= this.options.maxRecords) this.sweep(now);
    if (this.records.size >= this.options.maxRecords) {
      throw new StoreUnavailableError(
        `The memory store is full: ${this.records.size} live records, "maxRecords" is ${this.options.maxRecords}. Raise it, or shorten "outcome.retentionMs".`,
        { isRejection: true },
      );
    }
  }

  private sweep(now: number): void {
    for (let swept = 0; swept < SWEPT_PER_COMMAND; swept += 1) {
      const expired = this.expiry.takeExpired(now);
      if (expired === undefined) return;
      this.records.delete(expired);
    }
  }
}

/** Creates a {@link MemoryIdempotencyStore}. */
export function memoryStore(options: MemoryStoreOptions = {}): MemoryIdempotencyStore {
  return new MemoryIdempotencyStore(options);
}

function byKey(one: Store.AbandonedRecord, other: Store.AbandonedRecord): number {
  return one.recordKey < other.recordKey ? -1 : 1;
}

/** Copies, because callers may reuse or change their buffers. */
function copyOf({ header, body }: Outcome): Outcome {
  return { header, body: new Uint8Array(body) };
}
