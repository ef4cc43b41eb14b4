import { randomBytes } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type {
  BeginReply,
  Fingerprint,
  FinishedState,
  IdempotencyStore,
  Lease,
  Outcome,
  OwnerToken,
  RecordKey,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { CacheStore } from '../../../lib/cache/cache-store.js';
import { CACHE_DEFAULTS, type CacheOptions } from '../../../lib/core/cache-options.js';
import { FaultyStore } from '../../support/faulty-store.js';

export const RETENTION_MS = 10_000;
const HOUR_MS = 3_600_000;
const TIMEOUT_MS = 1_000;
const PRINT = 'content' as Fingerprint;

const random = (bytes: number) => randomBytes(bytes).toString('base64url');

/** A cache around a store that counts what it is asked; all clocks are driven. */
export class CacheUnderTest {
  /** The server's clock. */
  serverMs = 1_900_000_000_000;
  /** The clocks of the process. */
  now = { monotonic: 5_000, wall: 1_700_000_000_000 };
  readonly inner: FaultyStore;
  readonly store: CacheStore;

  constructor(
    options: CacheOptions = {},
    private readonly real = memoryStore({ now: () => this.serverMs }),
  ) {
    this.inner = new FaultyStore(real);
    this.store = new CacheStore(
      this.inner,
      LRUCache,
      { ...CACHE_DEFAULTS, ...options },
      () => this.now,
    );
  }

  /** Lets time go by, on all clocks. */
  pass(ms: number): void {
    const { monotonic, wall } = this.now;
    this.now = { monotonic: monotonic + ms, wall: wall + ms };
    this.serverMs += ms;
  }

  /** How many begins have come through to the store. */
  get asked(): number {
    return this.inner.sentOf('begin').length;
  }

  begin(recordKey: RecordKey, fingerprint = PRINT): Promise<BeginReply> {
    return this.beginIn(this.store, recordKey, fingerprint, random(16) as OwnerToken);
  }

  private beginIn(
    store: IdempotencyStore,
    recordKey: RecordKey,
    fingerprint: Fingerprint,
    token: OwnerToken,
  ): Promise<BeginReply> {
    return store.begin({
      recordKey,
      token,
      fingerprint,
      leaseMs: 1_000,
      maxExecutionMs: HOUR_MS,
      recordRetentionMs: HOUR_MS,
      notAfter: 0,
      onExpiredLease: 'takeover',
      timeoutMs: TIMEOUT_MS,
    });
  }

  /** A record whose attempt has ended, which nobody has asked for since. */
  async finished({
    state = 'completed',
    outcome = outcomeOf('done'),
    fingerprint = PRINT,
  }: {
    state?: FinishedState;
    outcome?: Outcome;
    fingerprint?: Fingerprint;
  } = {}): Promise<RecordKey> {
    const lease: Lease = {
      recordKey: newRecordKey(),
      token: random(16) as OwnerToken,
      fence: 0,
    };
    // Of a record that is not there only a success would be written back.
    await this.beginIn(this.real, lease.recordKey, fingerprint, lease.token);
    await this.store.complete(lease, {
      state,
      outcome,
      fingerprint,
      retentionMs: RETENTION_MS,
      whenGone: 'report',
      timeoutMs: TIMEOUT_MS,
    });
    return lease.recordKey;
  }

  /** The same, asked for once: it is in the cache. */
  async cached(record: Parameters<CacheUnderTest['finished']>[0] = {}): Promise<RecordKey> {
    const recordKey = await this.finished(record);
    await this.begin(recordKey, record.fingerprint);
    return recordKey;
  }

  /** Whether a begin is answered without the store. */
  async isCached(recordKey: RecordKey): Promise<boolean> {
    const before = this.asked;
    await this.begin(recordKey);
    return this.asked === before;
  }
}

export function newRecordKey(): RecordKey {
  return random(32) as RecordKey;
}

export function outcomeOf(body: string | Uint8Array, header = '{}'): Outcome {
  return { header, body: Buffer.from(body) };
}
