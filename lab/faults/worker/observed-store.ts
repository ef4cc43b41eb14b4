import type { IdempotencyStore } from 'nestjs-idempotency';
import { DelegatingStore } from 'nestjs-idempotency/store';
import type * as Store from 'nestjs-idempotency/store';
import type { LineFile } from './line-file.js';
import type { Mishaps } from './mishaps.js';

/** Between the library and its store: notes who has which record, and holds the points around the store. */
export class ObservedStore extends DelegatingStore {
  constructor(
    real: IdempotencyStore,
    private readonly worker: string,
    private readonly events: LineFile,
    private readonly mishaps: Pick<Mishaps, 'at'>,
  ) {
    super(real);
  }

  override async begin(command: Store.Begin): Promise<Store.BeginReply> {
    const reply = await super.begin(command);
    if (reply.kind === 'acquired' || reply.kind === 'owned' || reply.kind === 'takeover') {
      this.#note('lab:began', { ...reply, recordKey: command.recordKey }, reply.kind);
      await this.mishaps.at('after_begin');
    }
    return reply;
  }

  override async complete(
    lease: Store.Lease,
    command: Store.Complete,
  ): Promise<Store.CompleteReply> {
    await this.mishaps.at('before_complete');
    const reply = await super.complete(lease, command);
    this.#note('lab:settled', lease, reply.kind, 'complete');
    await this.mishaps.at('after_complete');
    return reply;
  }

  override async release(lease: Store.Lease, command: Store.Release): Promise<Store.ReleaseReply> {
    const reply = await super.release(lease, command);
    this.#note('lab:settled', lease, reply.kind, 'release');
    return reply;
  }

  #note(
    type: 'lab:began' | 'lab:settled',
    { recordKey, fence, attempt }: { recordKey: Store.RecordKey; fence: number; attempt?: number },
    reply: string,
    step?: 'complete' | 'release',
  ): void {
    const { worker } = this;
    this.events.append({ type, step, reply, recordKey, fence, attempt, worker, at: Date.now() });
  }
}
