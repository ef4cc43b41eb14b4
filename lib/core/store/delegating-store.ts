import type { BreakerState } from '../record/events.js';
import type { Lease, RecordKey } from '../record/record.js';
import { IdempotencyStore } from './idempotency-store.js';
import type * as Store from '../record/commands.js';
import type { Finding, StoreObserver, StoreWarning } from './idempotency-store.js';
import type { TransactionalRecords } from './transactional-records.js';

/**
 * Passes everything to another store: the base of a store that wraps one. Override what the wrapper changes. What a
 * wrapper overrides has to keep the contract of {@link IdempotencyStore}: test it with the conformance kit.
 *
 * @example
 * ```ts
 * class CountingStore extends DelegatingStore {
 *   begins = 0;
 *
 *   override begin(command: Begin): Promise<BeginReply> {
 *     this.begins += 1;
 *     return super.begin(command);
 *   }
 * }
 * ```
 */
export class DelegatingStore extends IdempotencyStore {
  /** @param store - the wrapped store. The wrapper opens and closes it. */
  constructor(protected readonly store: IdempotencyStore) {
    super();
  }

  /** The store without the wrappers in front of it. @internal */
  static innermostOf(store: IdempotencyStore): IdempotencyStore {
    return store instanceof DelegatingStore ? DelegatingStore.innermostOf(store.store) : store;
  }

  override get system(): string {
    return this.store.system;
  }

  override get isShared(): boolean {
    return this.store.isShared;
  }

  override get breaker(): BreakerState | undefined {
    return this.store.breaker;
  }

  override get deletedRecords(): number | undefined {
    return this.store.deletedRecords;
  }

  override get missedEntries(): number | undefined {
    return this.store.missedEntries;
  }

  override open(observer?: StoreObserver): Promise<readonly StoreWarning[]> {
    return this.store.open(observer);
  }

  override begin(command: Store.Begin): Promise<Store.BeginReply> {
    return this.store.begin(command);
  }

  override extend(lease: Lease, command: Store.Extend): Promise<Store.ExtendReply> {
    return this.store.extend(lease, command);
  }

  override complete(lease: Lease, command: Store.Complete): Promise<Store.CompleteReply> {
    return this.store.complete(lease, command);
  }

  override release(lease: Lease, command: Store.Release): Promise<Store.ReleaseReply> {
    return this.store.release(lease, command);
  }

  override inspect(
    recordKey: RecordKey,
    command: Store.Inspect,
  ): Promise<Store.IdempotencyRecord | undefined> {
    return this.store.inspect(recordKey, command);
  }

  override watch(
    recordKey: RecordKey,
    onEnd: () => void,
    command: Store.Watch,
  ): Promise<Store.StopWatching | undefined> {
    return this.store.watch(recordKey, onEnd, command);
  }

  override abandoned(command: Store.Abandoned): Promise<Store.AbandonedPage | undefined> {
    return this.store.abandoned(command);
  }

  override list(command: Store.List): Promise<Store.RecordPage | undefined> {
    return this.store.list(command);
  }

  override amend(command: Store.Amend): Promise<Store.AmendReply | undefined> {
    return this.store.amend(command);
  }

  override get transactional(): TransactionalRecords | undefined {
    return this.store.transactional;
  }

  override diagnose(): AsyncIterable<Finding> {
    return this.store.diagnose();
  }

  override close(observer?: StoreObserver): Promise<void> {
    return this.store.close(observer);
  }
}
