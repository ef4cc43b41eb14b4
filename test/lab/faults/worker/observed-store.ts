import {
  IdempotencyStore,
  type Begin,
  type BeginReply,
  type Complete,
  type CompleteReply,
  type Extend,
  type ExtendReply,
  type IdempotencyRecord,
  type Inspect,
  type Lease,
  type RecordKey,
  type Release,
  type ReleaseReply,
  type StoreObserver,
  type StoreWarning,
  type TransactionalRecords,
} from 'nestjs-idempotency';
import type { LineFile } from './line-file.js';
import type { Mishaps } from './mishaps.js';

/** Between the library and its store: notes who has which record, and holds the points around the store. */
export class ObservedStore extends IdempotencyStore {
  constructor(
    private readonly real: IdempotencyStore,
    private readonly worker: string,
    private readonly events: LineFile,
    private readonly mishaps: Pick<Mishaps, 'at'>,
  ) {
    super();
  }

  override open(observer?: StoreObserver): Promise<readonly StoreWarning[]> {
    return this.real.open(observer);
  }

  override async begin(command: Begin): Promise<BeginReply> {
    const reply = await this.real.begin(command);
    if (reply.kind === 'acquired' || reply.kind === 'owned' || reply.kind === 'takeover') {
      this.#note('lab:began', { ...reply, recordKey: command.recordKey }, reply.kind);
      await this.mishaps.at('after_begin');
    }
    return reply;
  }

  override extend(lease: Lease, command: Extend): Promise<ExtendReply> {
    return this.real.extend(lease, command);
  }

  override async complete(lease: Lease, command: Complete): Promise<CompleteReply> {
    await this.mishaps.at('before_complete');
    const reply = await this.real.complete(lease, command);
    this.#note('lab:settled', lease, reply.kind, 'complete');
    await this.mishaps.at('after_complete');
    return reply;
  }

  override async release(lease: Lease, command: Release): Promise<ReleaseReply> {
    const reply = await this.real.release(lease, command);
    this.#note('lab:settled', lease, reply.kind, 'release');
    return reply;
  }

  override get transactional(): TransactionalRecords | undefined {
    return this.real.transactional;
  }

  override inspect(recordKey: RecordKey, command: Inspect): Promise<IdempotencyRecord | undefined> {
    return this.real.inspect(recordKey, command);
  }

  override close(observer?: StoreObserver): Promise<void> {
    return this.real.close(observer);
  }

  #note(
    type: 'lab:began' | 'lab:settled',
    { recordKey, fence, attempt }: { recordKey: RecordKey; fence: number; attempt?: number },
    reply: string,
    step?: 'complete' | 'release',
  ): void {
    const { worker } = this;
    this.events.append({ type, step, reply, recordKey, fence, attempt, worker, at: Date.now() });
  }
}
