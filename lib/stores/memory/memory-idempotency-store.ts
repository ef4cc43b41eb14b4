// eslint-disable-next-line no-restricted-imports -- see StoreClock
import { setImmediate } from 'node:timers';
import type { Lease, Outcome, RecordKey, StoredRecord } from '../../core/record/record.js';
import { IdempotencyStore } from '../../core/store/idempotency-store.js';
import type * as Store from '../../core/record/commands.js';
import type { StoreObserver, StoreWarning } from '../../core/store/idempotency-store.js';
import { Openings } from '../../core/store/openings.js';
import * as transitions from '../../core/store/record-transitions.js';
import { asBuffer } from '../../core/util/as-buffer.js';
import { NodeClock, type Clock } from '../../core/util/clock.js';
import { StoreConfigurationError, StoreUnavailableError } from '../../core/errors/errors.js';
import { Watchers } from '../../core/store/watchers.js';
import {
  flag,
  integer,
  isFunction,
  of,
  resolveOptions,
  type Defaulted,
  type Schema,
} from '../../core/options/option-schema.js';
import { ExpiryQueue, type Expiring } from './expiry-queue.js';

/** Options of {@link memoryStore}. */
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
  /**
   * Lets an application start with this store where `NODE_ENV` is `production`. Only for a single process that may lose
   * its records when it ends: until a retry comes, each operation can then run twice.
   * @defaultValue false
   */
  readonly allowInMemoryStorage?: boolean | undefined;
}

type ResolvedOptions = Defaulted<MemoryStoreOptions, 'maxRecords' | 'allowInMemoryStorage'>;

export const OPTIONS: Schema<MemoryStoreOptions, ResolvedOptions> = {
  maxRecords: integer({ default: 100_000, min: 1, max: Number.MAX_SAFE_INTEGER }),
  now: of('a function', isFunction, { defaultText: '`Date.now`' }),
  allowInMemoryStorage: flag(false),
};

const REFUSED =
  'memoryStore() does not start where NODE_ENV is "production": other processes do not see its records, and a restart loses them all, so that operations run twice. Use a store that outlives the process, such as redisStore() or postgresStore(). For a single process that may lose its records, set memoryStore({ allowInMemoryStorage: true }).';

const IN_PRODUCTION: StoreWarning = {
  code: 'memory_store_in_production',
  message:
    'The memory store runs in production, as "allowInMemoryStorage" allows: other processes do not see its records, and a restart loses them all, so that operations run twice.',
};

/** Taken now: a test may replace the global one, and its property of the module. */
const afterEvents = setImmediate;

/** Replies also while fake timers of a test stand still. */
class StoreClock extends NodeClock {
  override setImmediate<Value>(callback: (value: Value) => void, value: Value): void {
    afterEvents(callback, value);
  }
}

/** Records per iteration of the event loop: some milliseconds. */
const SCANNED_AT_ONCE = 10_000;

/** Expired records that each command deletes: more than a command can add, so that none accumulate. */
const SWEPT_PER_COMMAND = 16;

/**
 * Keeps records in this process: for development, tests, and single-process services that may lose all records when
 * they end. Every command is executed before it returns, so its `timeoutMs` never passes; later commands delete expired
 * records.
 */
export class MemoryIdempotencyStore extends IdempotencyStore {
  private readonly maxRecords: number;
  private readonly now: () => number;
  private readonly isAllowed: boolean;
  private readonly entries = new Map<RecordKey, Entry>();
  private readonly expiry = new ExpiryQueue<Entry>();
  /**
   * Delivered together: requests that are read together are then answered together. Over Fastify with 64 connections:
   * 1.8 times the rate and 0.54 of the CPU of replies at once.
   */
  private readonly replies: (() => void)[] = [];
  private readonly watchers = new Watchers<RecordKey>();
  private readonly openings = new Openings();
  private closed = false;

  /** @throws `IdempotencyOptionsError` when an option is out of its range. */
  constructor(options?: MemoryStoreOptions);
  /** @internal */
  constructor(options: MemoryStoreOptions | undefined, clock: Clock);
  constructor(
    options: MemoryStoreOptions = {},
    private readonly replyClock: Clock = new StoreClock(),
  ) {
    super();
    const resolved = resolveOptions('memoryStore', OPTIONS, options);
    const { maxRecords, now, allowInMemoryStorage } = resolved;
    this.maxRecords = maxRecords;
    this.isAllowed = allowInMemoryStorage;
    this.now = now ?? (() => replyClock.wallTime());
  }

  override get system(): string {
    return 'memory';
  }

  /** Never: no other process can reach its records. */
  override get isShared(): boolean {
    return false;
  }

  /** @throws {@link StoreConfigurationError} if `NODE_ENV` is `production`, unless `allowInMemoryStorage` is set. */
  override open(observer?: StoreObserver): Promise<readonly StoreWarning[]> {
    const isProduction = process.env.NODE_ENV === 'production';
    if (isProduction && !this.isAllowed)
      return Promise.reject(new StoreConfigurationError(REFUSED));
    this.openings.add(observer);
    this.closed = false;
    return Promise.resolve(isProduction ? [IN_PRODUCTION] : []);
  }

  begin(command: Store.Begin): Promise<Store.BeginReply> {
    return this.step((nowUs, now) => {
      const { recordKey } = command;
      const entry = this.entries.get(recordKey);
      const { reply, record } = transitions.begin(entry?.record, command, nowUs);
      if (entry === undefined && record !== undefined) this.makeRoom(now);
      this.write(recordKey, entry, record);
      return 'outcome' in reply ? { ...reply, outcome: copyOf(reply.outcome) } : reply;
    });
  }

  extend(lease: Lease, command: Store.Extend): Promise<Store.ExtendReply> {
    return this.step((nowUs) => {
      const entry = this.entries.get(lease.recordKey);
      const { reply, record } = transitions.extend(entry?.record, lease, command, nowUs);
      this.write(lease.recordKey, entry, record);
      return reply;
    });
  }

  complete(lease: Lease, command: Store.Complete): Promise<Store.CompleteReply> {
    return this.step((nowUs) => {
      const entry = this.entries.get(lease.recordKey);
      const own = { ...command, outcome: new StoredOutcome(command.outcome) };
      const { reply, record } = transitions.complete(entry?.record, lease, own, nowUs);
      const isChanged = this.write(lease.recordKey, entry, record);
      if (command.notify === true && isChanged) this.notify(lease.recordKey);
      return 'outcome' in reply ? { ...reply, outcome: copyOf(reply.outcome) } : reply;
    });
  }

  release(lease: Lease, command: Store.Release): Promise<Store.ReleaseReply> {
    return this.step((nowUs) => {
      const entry = this.entries.get(lease.recordKey);
      const { reply, record } = transitions.release(entry?.record, lease, command, nowUs);
      const isChanged = this.write(lease.recordKey, entry, record);
      if (command.notify === true && isChanged) this.notify(lease.recordKey);
      return reply;
    });
  }

  inspect(recordKey: RecordKey): Promise<Store.IdempotencyRecord | undefined> {
    return this.step((nowUs) => {
      const record = transitions.inspect(this.entries.get(recordKey)?.record, nowUs);
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
    for (const [recordKey, entry] of this.entries) {
      scanned += 1;
      if (recordKey <= cursor) continue;
      const { reply, record } = transitions.abandoned(entry.record, overMs, nowUs);
      this.write(recordKey, entry, record);
      if (reply !== undefined) records.push({ recordKey, ...reply });
      if (scanned % SCANNED_AT_ONCE === 0) nowUs = await this.clockUs();
    }
    // Sorted by key, so that a page ends at the same place whatever records are added or deleted.
    const page = records.sort(byKey).slice(0, limit);
    const last = page.at(-1);
    const isLast = records.length <= limit || last === undefined;
    return isLast ? { records: page } : { records: page, cursor: last.recordKey };
  }

  override async list(command: Store.List): Promise<Store.RecordPage> {
    const { keyPrefix = '', cursor = '', limit, maxScanned } = command;
    let nowUs = await this.clockUs();
    const keys = [...this.entries.keys()].filter((key) => key.startsWith(keyPrefix));
    // Sorted, so that a page ends at the same place whatever records are added or deleted.
    const left = keys.filter((key) => key > cursor).sort();
    const records: Store.ListedRecord[] = [];
    let scanned = 0;
    for (const recordKey of left) {
      if (records.length === limit || scanned === maxScanned) break;
      scanned += 1;
      const inspected = transitions.inspect(this.entries.get(recordKey)?.record, nowUs);
      if (inspected !== undefined && transitions.isListed(inspected, command)) {
        const { outcome: _, ...record } = inspected;
        records.push({ recordKey, ...record });
      }
      if (scanned % SCANNED_AT_ONCE === 0) nowUs = await this.clockUs();
    }
    const last = left[scanned - 1];
    const isLast = scanned === left.length || last === undefined;
    return isLast ? { records, scanned } : { records, scanned, cursor: last };
  }

  override amend(command: Store.Amend): Promise<Store.AmendReply> {
    return this.step((nowUs) => {
      const { recordKey, change, notify } = command;
      const entry = this.entries.get(recordKey);
      const own =
        'outcome' in change && change.outcome !== undefined
          ? { ...command, change: { ...change, outcome: new StoredOutcome(change.outcome) } }
          : command;
      const { reply, record } = transitions.amend(entry?.record, own, nowUs);
      const isChanged = this.write(recordKey, entry, record);
      if (notify === true && isChanged) this.notify(recordKey);
      return reply;
    });
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
  close(observer?: StoreObserver): Promise<void> {
    if (!this.openings.remove(observer)) return Promise.resolve();
    this.closed = true;
    this.clear();
    this.watchers.clear();
    return Promise.resolve();
  }

  /** Deletes every record, for example between two tests. */
  clear(): void {
    this.entries.clear();
    this.expiry.clear();
  }

  /** Expires a record, unless its attempt is in progress. */
  protected forgetEnded(recordKey: RecordKey): void {
    const entry = this.entries.get(recordKey);
    if (entry === undefined || entry.record.state === 'in_progress') return;
    this.write(recordKey, entry, { ...entry.record, expiresAt: -Infinity });
  }

  /** Delivers replies together, after the events of this iteration of the event loop. */
  protected deliver(reply: () => void): void {
    if (this.replies.push(reply) > 1) return;
    this.replyClock.setImmediate(deliverAll, this.replies);
  }

  /** Number of records, including expired ones that no command has deleted yet. */
  get size(): number {
    return this.entries.size;
  }

  private clockUs(): Promise<number> {
    return this.step((nowUs) => nowUs);
  }

  private step<Reply>(run: (nowUs: number, now: number) => Reply): Promise<Reply> {
    return new Promise((resolve) => {
      if (this.closed) throw new StoreUnavailableError('The memory store is closed.');
      const now = Math.floor(this.now());
      const reply = run(now * 1000, now);
      // Last, so that an expired record still passes its fence to the next attempt.
      this.sweep(now);
      this.deliver(() => {
        resolve(reply);
      });
    });
  }

  /** With the reply: a duplicate that begins then gets its own reply later than the owner. */
  private notify(recordKey: RecordKey): void {
    void new Promise<void>((resolve) => {
      this.deliver(resolve);
    }).then(() => {
      this.watchers.notify(recordKey);
    });
  }

  /** @returns whether it changed the record. */
  private write(
    recordKey: RecordKey,
    entry: Entry | undefined,
    record: StoredRecord | undefined,
  ): boolean {
    if (record === undefined || record === entry?.record) return false;
    if (entry === undefined) {
      const added = new Entry(recordKey, record);
      this.entries.set(recordKey, added);
      this.expiry.add(added);
    } else {
      entry.record = record;
      this.expiry.move(entry);
    }
    return true;
  }

  private makeRoom(now: number): void {
    if (this.entries.size >= this.maxRecords) this.sweep(now);
    if (this.entries.size >= this.maxRecords) {
      throw new StoreUnavailableError(
        `The memory store is full: ${this.entries.size} live records, "maxRecords" is ${this.maxRecords}. Raise it, or shorten "outcome.retention".`,
        { isRejection: true },
      );
    }
  }

  private sweep(now: number): void {
    for (let swept = 0; swept < SWEPT_PER_COMMAND; swept += 1) {
      const expired = this.expiry.takeExpired(now);
      if (expired === undefined) return;
      this.entries.delete(expired.recordKey);
    }
  }
}

/** A record, and its place in the queue. */
class Entry implements Expiring {
  position = 0;

  constructor(
    readonly recordKey: RecordKey,
    public record: StoredRecord,
  ) {}

  get expiresAt(): number {
    return this.record.expiresAt;
  }
}

/**
 * Own bytes, because callers may reuse or change their buffers, as a one-byte string: it is on the heap as a whole,
 * where a Uint8Array is several objects and bytes outside of it. With one map for records and expiries, begin and
 * complete take 0.73 of the CPU (200 bytes, Node 24).
 */
class StoredOutcome implements Outcome {
  readonly header: string;
  private readonly text: string;

  constructor({ header, body }: Outcome) {
    this.header = header;
    this.text = asBuffer(body).toString('latin1');
  }

  get body(): Uint8Array {
    return Buffer.from(this.text, 'latin1');
  }
}

/** Creates a {@link MemoryIdempotencyStore}. */
export function memoryStore(options: MemoryStoreOptions = {}): MemoryIdempotencyStore {
  return new MemoryIdempotencyStore(options);
}

function deliverAll(replies: (() => void)[]): void {
  for (const reply of replies.splice(0)) reply();
}

function byKey(one: Store.AbandonedRecord, other: Store.AbandonedRecord): number {
  return one.recordKey < other.recordKey ? -1 : 1;
}

/** With bytes that belong to the caller. */
function copyOf({ header, body }: Outcome): Outcome {
  return { header, body };
}
