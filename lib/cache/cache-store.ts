import type { ResolvedCacheOptions } from '../core/cache-options.js';
import { hasCode } from '../core/errors.js';
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
} from '../core/idempotency-store.js';
import { Openings } from '../core/openings.js';
import type { Lease, RecordKey } from '../core/record.js';
import type { TransactionalRecords } from '../core/transactional-records.js';
import { processClock, type Clock } from './age.js';
import { FinishedReplies } from './finished-replies.js';
import type { LruCacheConstructor } from './load-lru-cache.js';
import { ReplyBatch } from './reply-batch.js';

/**
 * Answers a begin from this process' memory where the store has answered it before: with `completed` or `failed`, after
 * which the store has nothing else to say until the retention is over. Whatever may change, and every record that this
 * process has not begun on since it was finished, is asked of the store.
 *
 * Nothing but the store's own reply to a begin is kept: it is the only one that tells what the record holds, the content
 * that it belongs to, and how long it lasts. A completion tells none of these, and most are never repeated.
 */
export class CacheStore extends IdempotencyStore {
  private readonly replies: FinishedReplies;
  private readonly batch = new ReplyBatch();
  private readonly openings = new Openings();
  private isClosed = false;

  /** @param clock - what ages are counted by; the clocks of the process. */
  constructor(
    private readonly store: IdempotencyStore,
    Lru: LruCacheConstructor,
    options: ResolvedCacheOptions,
    private readonly clock: Clock = processClock,
  ) {
    super();
    this.replies = new FinishedReplies(Lru, options, clock);
  }

  override async open(observer?: StoreObserver): Promise<readonly StoreWarning[]> {
    const warnings = await this.store.open(observer);
    this.openings.add(observer);
    this.isClosed = false;
    return warnings;
  }

  override begin(command: Begin): Promise<BeginReply> {
    const known = this.replies.find(command.recordKey, command.fingerprint);
    return known === undefined ? this.beginThere(command) : this.batch.add(known);
  }

  override extend(lease: Lease, command: Extend): Promise<ExtendReply> {
    return this.store.extend(lease, command);
  }

  override complete(lease: Lease, command: Complete): Promise<CompleteReply> {
    return this.store.complete(lease, command);
  }

  override release(lease: Lease, command: Release): Promise<ReleaseReply> {
    return this.store.release(lease, command);
  }

  /** Always asks the store. */
  override inspect(recordKey: RecordKey, command: Inspect): Promise<IdempotencyRecord | undefined> {
    return this.store.inspect(recordKey, command);
  }

  override watch(
    recordKey: RecordKey,
    onEnd: () => void,
    command: Watch,
  ): Promise<StopWatching | undefined> {
    return this.store.watch(recordKey, onEnd, command);
  }

  override abandoned(command: Abandoned): Promise<AbandonedPage | undefined> {
    return this.store.abandoned(command);
  }

  override get transactional(): TransactionalRecords | undefined {
    return this.store.transactional;
  }

  /** The last close forgets everything; until the next opening every begin goes to the store. */
  override async close(observer?: StoreObserver): Promise<void> {
    if (this.openings.remove(observer)) {
      this.isClosed = true;
      this.replies.clear();
    }
    await this.store.close(observer);
  }

  private async beginThere(command: Begin): Promise<BeginReply> {
    const { recordKey, fingerprint } = command;
    const askedAt = this.clock();
    const reply = await this.ask(command);
    const isFinished = reply.kind === 'completed' || reply.kind === 'failed';
    if (isFinished && !this.isClosed) this.replies.keep(recordKey, fingerprint, reply, askedAt);
    return reply;
  }

  private async ask(command: Begin): Promise<BeginReply> {
    try {
      return await this.store.begin(command);
    } catch (error) {
      // What is kept would answer some requests, and hide from others' operators that it is set up wrongly.
      if (hasCode(error, 'idempotency_store_misconfigured')) this.replies.clear();
      throw error;
    }
  }
}
