import type * as Store from '../../record/commands.js';
import type { Fingerprint, Lease, RecordKey } from '../../record/record.js';
import { newOwnerToken, newProbeKey } from '../../record/record-key.js';
import { nodeClock, type Clock } from '../../util/clock.js';
import { StoreUnavailableError } from '../../errors/errors.js';
import type { StoreWarning } from '../../record/store-warning.js';

const FINGERPRINT = 'trial' as Fingerprint;
const OUTCOME = { header: 'trial', body: Buffer.from('The outcome of a trial.') };

/** The steps of a store. */
export interface Steps {
  begin(command: Store.Begin): Promise<Store.BeginReply>;
  extend(lease: Lease, command: Store.Extend): Promise<Store.ExtendReply>;
  complete(lease: Lease, command: Store.Complete): Promise<Store.CompleteReply>;
  release(lease: Lease, command: Store.Release): Promise<Store.ReleaseReply>;
  inspect(key: RecordKey, command: Store.Inspect): Promise<Store.IdempotencyRecord | undefined>;
  watch(
    key: RecordKey,
    onEnd: () => void,
    command: Store.Watch,
  ): Promise<Store.StopWatching | undefined>;
}

/** A store that can delete the record of a trial at once. No step of the protocol does: it would delete outcomes. */
export interface ForgettingStore {
  /** @returns a warning if the server kept the record, and every expired one, without an error. */
  forget(recordKey: RecordKey): Promise<StoreWarning | undefined>;
}

/** Steps of a store, on a record of their own that no request can have. They share one time limit. */
export class Trial {
  readonly recordKey: RecordKey;
  private readonly dueAt: number;

  /**
   * @param timeoutMs - for all steps together.
   * @param keptMs - how long the record may outlive a lost reply.
   */
  constructor(
    private readonly store: Steps,
    timeoutMs: number,
    private readonly keptMs: number,
    private readonly clock: Clock = nodeClock,
  ) {
    this.recordKey = newProbeKey(clock);
    this.dueAt = clock.now() + timeoutMs;
  }

  /** Milliseconds, for the next step. */
  get timeoutMs(): number {
    return Math.max(1, Math.ceil(this.dueAt - this.clock.now()));
  }

  async begin(): Promise<Lease> {
    const command = this.command();
    const reply = await this.store.begin(command);
    // Owned: a copy of the command was executed before.
    if (reply.kind !== 'acquired' && reply.kind !== 'owned') throw unexpected('begin', reply.kind);
    return { recordKey: this.recordKey, token: command.token, fence: reply.fence };
  }

  async release(lease: Lease): Promise<void> {
    const { timeoutMs } = this;
    const { kind } = await this.store.release(lease, { tombstoneMs: 1, timeoutMs });
    if (kind !== 'ok' && kind !== 'already') throw unexpected('release', kind);
  }

  /** @param notify - watchers of the record. */
  async complete(lease: Lease, notify = false): Promise<void> {
    const { kind } = await this.store.complete(lease, {
      state: 'completed',
      outcome: OUTCOME,
      retentionMs: this.keptMs,
      fingerprint: FINGERPRINT,
      whenGone: 'report',
      notify,
      timeoutMs: this.timeoutMs,
    });
    if (kind !== 'ok' && kind !== 'already') throw unexpected('complete', kind);
  }

  async replay(): Promise<void> {
    const reply = await this.store.begin(this.command());
    const isReplay = reply.kind === 'completed' && OUTCOME.body.equals(reply.outcome.body);
    if (!isReplay) throw unexpected('begin', reply.kind);
  }

  /** Best effort: without it, the record expires. */
  async forget(): Promise<StoreWarning | undefined> {
    const store: Steps & Partial<ForgettingStore> = this.store;
    return store.forget?.(this.recordKey).catch(() => undefined);
  }

  private command(): Store.Begin {
    const { recordKey, keptMs, timeoutMs, clock } = this;
    return {
      recordKey,
      token: newOwnerToken(clock),
      fingerprint: FINGERPRINT,
      leaseMs: keptMs,
      maxExecutionMs: keptMs,
      recordRetentionMs: keptMs,
      notAfter: 0,
      onExpiredLease: 'deny',
      timeoutMs,
    };
  }
}

/** The reply of a server that does not keep what it confirms. */
export function unexpected(step: string, found = 'that there is no record'): StoreUnavailableError {
  return new StoreUnavailableError(
    `The reply to ${step} was ${found}: the server does not keep what it confirms. Does the connection always lead to the same primary?`,
  );
}
