import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import type {
  Fingerprint,
  Lease,
  Outcome,
  OwnerToken,
  RecordKey,
} from '../../../core/record/record.js';
import type * as Store from '../../../core/record/commands.js';
import type { IdempotencyStore } from '../../../core/store/idempotency-store.js';
import type { StoreHarness } from './store-harness.js';

export const LEASE_MS = 10_000;
export const MAX_EXECUTION_MS = 60_000;
export const RETENTION_MS = 3_600_000;
export const RECORD_RETENTION_MS = RETENTION_MS + MAX_EXECUTION_MS;
export const TOMBSTONE_MS = 1_800_000;
/** Far above what a healthy store needs: the kit does not test timeouts. */
export const TIMEOUT_MS = 30_000;

export const SUCCESS = outcome('{"status":201}', 'charged');
export const OTHER_SUCCESS = outcome('{"status":200}', 'charged by another');
export const FAILURE = outcome('{"status":402}', 'card declined');

/** The longest note, of every character that a note may have. */
export const NOTE = String.fromCharCode(
  ...Array.from({ length: 240 }, (_, index) => 33 + (index % 94)),
);

/** Drives one record of the store under test, with the defaults above. */
export class TestRecord {
  readonly key = randomText(32) as RecordKey;
  readonly fingerprint = newFingerprint();
  readonly store: IdempotencyStore;
  private readonly hasSteppableClock: boolean;

  constructor(private readonly harness: StoreHarness) {
    this.store = harness.store;
    this.hasSteppableClock = harness.clock !== undefined;
  }

  neighbour(): TestRecord {
    return new TestRecord(this.harness);
  }

  /** An attempt that has not begun: its fence is unknown. */
  attempt(): Lease {
    return { recordKey: this.key, token: randomText(16) as OwnerToken, fence: 0 };
  }

  /** An attempt that has begun, with the fence from the store. */
  async begun(how: Partial<Store.Begin> = {}): Promise<Lease> {
    const attempt = this.attempt();
    const reply = await this.begin(attempt, how);
    assert.ok('now' in reply && 'fence' in reply, `begin replied ${reply.kind}`);
    return { ...attempt, fence: reply.fence };
  }

  /** An attempt whose success is stored. */
  async completed(how: Partial<Store.Complete> = {}): Promise<Lease> {
    const attempt = await this.begun();
    assert.equal((await this.complete(attempt, how)).kind, 'ok');
    return attempt;
  }

  async released(): Promise<Lease> {
    const attempt = await this.begun();
    assert.equal((await this.release(attempt)).kind, 'ok');
    return attempt;
  }

  begin({ recordKey, token }: Lease, how: Partial<Store.Begin> = {}): Promise<Store.BeginReply> {
    return this.store.begin({
      recordKey,
      token,
      fingerprint: this.fingerprint,
      leaseMs: LEASE_MS,
      maxExecutionMs: MAX_EXECUTION_MS,
      recordRetentionMs: RECORD_RETENTION_MS,
      notAfter: 0,
      onExpiredLease: 'takeover',
      timeoutMs: TIMEOUT_MS,
      ...how,
    });
  }

  extend(lease: Lease, how: Partial<Store.Extend> = {}): Promise<Store.ExtendReply> {
    return this.store.extend(lease, {
      leaseMs: LEASE_MS,
      recordRetentionMs: RECORD_RETENTION_MS,
      timeoutMs: TIMEOUT_MS,
      ...how,
    });
  }

  complete(lease: Lease, how: Partial<Store.Complete> = {}): Promise<Store.CompleteReply> {
    return this.store.complete(lease, {
      state: 'completed',
      outcome: SUCCESS,
      retentionMs: RETENTION_MS,
      fingerprint: this.fingerprint,
      whenGone: 'report',
      timeoutMs: TIMEOUT_MS,
      ...how,
    });
  }

  release(lease: Lease, how: Partial<Store.Release> = {}): Promise<Store.ReleaseReply> {
    return this.store.release(lease, { tombstoneMs: TOMBSTONE_MS, timeoutMs: TIMEOUT_MS, ...how });
  }

  /** An operator's change of the record as it is now; `undefined` if the store cannot. */
  async amend(
    change: Store.AmendedRecord,
    how: Partial<Store.Amend> = {},
  ): Promise<Store.AmendReply | undefined> {
    const { state, fence } = await this.present();
    return this.store.amend({
      recordKey: this.key,
      token: randomText(16) as OwnerToken,
      expected: { state, fence },
      change,
      evenIfRunning: true,
      notBefore: 0,
      timeoutMs: TIMEOUT_MS,
      ...how,
    });
  }

  inspect(): Promise<Store.IdempotencyRecord | undefined> {
    return this.store.inspect(this.key, { timeoutMs: TIMEOUT_MS });
  }

  async present(): Promise<Store.IdempotencyRecord> {
    const record = await this.inspect();
    assert.ok(record, 'there is no record');
    return record;
  }

  /** Asserts that `step` does not change the record, and returns the store's reply. */
  async unchangedBy<Reply>(step: () => Promise<Reply>): Promise<Reply> {
    const before = this.comparable(await this.inspect());
    const reply = await step();
    assert.deepEqual(this.comparable(await this.inspect()), before);
    return reply;
  }

  /** Without durations if the clock runs, since they shrink. */
  private comparable(record: Store.IdempotencyRecord | undefined): unknown {
    if (record === undefined) return undefined;
    const { outcome: kept, ageMs, retentionLeftMs, leaseLeftMs, ...rest } = record;
    const timed = this.hasSteppableClock ? { ageMs, retentionLeftMs, leaseLeftMs } : {};
    return { ...rest, ...timed, outcome: kept === undefined ? undefined : readable(kept) };
  }
}

export function outcome(header: string, body: string | Uint8Array): Outcome {
  return { header, body: new Uint8Array(Buffer.from(body)) };
}

/** Compares header and bytes, whatever subclass of Uint8Array holds them. */
export function assertOutcome(actual: Outcome | undefined, expected: Outcome): void {
  assert.ok(actual, 'there is no outcome');
  assert.equal(actual.header, expected.header);
  assert.equal(actual.body.length, expected.body.length, 'length of the body');
  assert.ok(Buffer.from(expected.body).equals(actual.body), 'the bytes of the body differ');
}

export function newFingerprint(): Fingerprint {
  return randomText(32) as Fingerprint;
}

function randomText(bytes: number): string {
  return randomBytes(bytes).toString('base64url');
}

export function tally(replies: readonly { kind: string }[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { kind } of replies) counts[kind] = (counts[kind] ?? 0) + 1;
  return counts;
}

function readable({ header, body }: Outcome): { header: string; body: string } {
  return { header, body: Buffer.from(body).toString('base64') };
}
