import type { MemoryIdempotencyStore } from 'nestjs-idempotency/memory';
import { randomBytes } from 'node:crypto';
import type { Fingerprint, Lease, OwnerToken, RecordKey } from 'nestjs-idempotency/store';
import {
  resolveGroup,
  type BreakerEvent,
  type InMilliseconds,
} from '../../support/internals/core.js';
import Opossum from 'opossum';
import { BREAKER, BreakerStore, type BreakerOptions } from '../../support/internals/breaker.js';
import {
  FaultyStore,
  unavailable,
  type Fault,
  type Step,
} from '../../support/stores/faulty-store.js';
import { PromptStore } from '../../support/stores/prompt-store.js';

export const PROBE_TIMEOUT_MS = 250;
const TIMEOUT_MS = 1_000;
const HOUR_MS = 3_600_000;

const random = (bytes: number) => randomBytes(bytes).toString('base64url');

/** A breaker around a store with planned faults. */
export class BreakerUnderTest {
  readonly inner: FaultyStore;
  readonly events: BreakerEvent[] = [];
  readonly store: BreakerStore;
  readonly settings: InMilliseconds<Required<BreakerOptions>>;

  constructor(
    options: InMilliseconds<BreakerOptions> = {},
    real: MemoryIdempotencyStore = new PromptStore(),
  ) {
    this.inner = new FaultyStore(real);
    this.settings = { ...resolveGroup('breaker', BREAKER), ...options };
    this.store = new BreakerStore(
      this.inner,
      Opossum,
      { ...this.settings, probeTimeoutMs: PROBE_TIMEOUT_MS },
      (event) => void this.events.push(event),
    );
  }

  /** The names of the events so far, in order. */
  get reported(): string[] {
    return this.events.map(({ type }) => type);
  }

  newLease(): Lease {
    return { recordKey: random(32) as RecordKey, token: random(16) as OwnerToken, fence: 0 };
  }

  /** Sends one command for a new record, or for the one that is named. */
  send(step: Step, lease = this.newLease()): Promise<unknown> {
    const { store } = this;
    const fingerprint = 'content' as Fingerprint;
    const timeoutMs = TIMEOUT_MS;
    switch (step) {
      case 'begin':
        return store.begin({
          ...lease,
          fingerprint,
          leaseMs: HOUR_MS,
          maxExecutionMs: HOUR_MS,
          recordRetentionMs: HOUR_MS,
          notAfter: 0,
          onExpiredLease: 'takeover',
          timeoutMs,
        });
      case 'extend':
        return store.extend(lease, { leaseMs: HOUR_MS, recordRetentionMs: HOUR_MS, timeoutMs });
      case 'complete':
        return store.complete(lease, {
          state: 'completed',
          outcome: { header: '{}', body: Buffer.from('done') },
          retentionMs: HOUR_MS,
          fingerprint,
          whenGone: 'restore',
          timeoutMs,
        });
      case 'release':
        return store.release(lease, { tombstoneMs: HOUR_MS, timeoutMs });
      case 'inspect':
        return store.inspect(lease.recordKey, { timeoutMs });
    }
  }

  /** Sends this many commands, one after the other, whatever their outcome. */
  async sendMany(count: number, step: Step, fault?: Fault): Promise<void> {
    for (let sent = 0; sent < count; sent += 1) {
      if (fault !== undefined) this.inner.next(step, fault);
      await this.send(step).catch(() => undefined);
    }
  }

  /** The number of failures that opens it. */
  async open(): Promise<void> {
    await this.sendMany(this.settings.volumeThreshold, 'begin', unavailable);
  }
}
