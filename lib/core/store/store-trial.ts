import type { Fingerprint, Lease, RecordKey } from '../record/record.js';
import { newOwnerToken, newProbeKey } from '../record/record-key.js';
import { nodeClock, type Clock } from '../util/clock.js';
import { asError, hasCode, StoreUnavailableError } from '../errors/errors.js';
import { isDoneWithin } from '../util/time.js';
import { DelegatingStore } from './delegating-store.js';
import type { Begin } from '../record/commands.js';
import type { IdempotencyStore, StoreWarning } from './idempotency-store.js';

const FINGERPRINT = 'trial' as Fingerprint;
const OUTCOME = { header: 'trial', body: Buffer.from('The outcome of a trial.') };

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
    private readonly store: IdempotencyStore,
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
    const store: IdempotencyStore & Partial<ForgettingStore> = this.store;
    return store.forget?.(this.recordKey).catch(() => undefined);
  }

  private command(): Begin {
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

const TIMEOUT_MS = 2_000;
/** Longer than all steps take. */
const KEPT_MS = 4_000;
/** A store ends its commands itself, and then knows more about the reason. */
const GRACE_MS = 250;

function noReply() {
  return { warning: undefined, error: new StoreUnavailableError('The store does not reply.') };
}

/**
 * Executes begin, release, complete and replay at the start of an application, on a record that is deleted, or expires in seconds. A
 * wrapper's own commands are not tried: it may count them. Nor are those of the memory store, which depend on nothing
 * outside of the process, and whose `maxRecords` the record would take part of.
 * @returns a warning if the steps failed for a reason that may pass, or if the server deletes no record.
 * @throws {@link StoreConfigurationError} if they cannot succeed until the configuration is fixed.
 */
export async function tryStore(
  store: IdempotencyStore,
  clock: Clock = nodeClock,
): Promise<StoreWarning | undefined> {
  const tried = DelegatingStore.innermostOf(store);
  if (tried.system === 'memory') return undefined;
  const result = oneOfEach(new Trial(tried, TIMEOUT_MS, KEPT_MS, clock)).then(
    (warning) => ({ warning, error: undefined }),
    (error: unknown) => ({ warning: undefined, error: asError(error) }),
  );
  const isOver = await isDoneWithin(TIMEOUT_MS + GRACE_MS, result, clock);
  const { warning, error } = isOver ? await result : noReply();
  if (error === undefined) return warning;
  if (hasCode(error, 'idempotency_store_misconfigured')) throw error;
  return {
    code: 'store_step_failed',
    message: `The store did not execute begin, complete, replay and release at the start. While it does not, idempotent operations are rejected. ${error.message}`,
  };
}

async function oneOfEach(trial: Trial): Promise<StoreWarning | undefined> {
  await trial.release(await trial.begin());
  await trial.complete(await trial.begin());
  await trial.replay();
  return trial.forget();
}
