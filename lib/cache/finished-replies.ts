import type { ResolvedCacheOptions } from '../core/cache-options.js';
import type { BeginReply } from '../core/idempotency-store.js';
import type { FinishedState, Fingerprint, RecordKey } from '../core/record.js';
import { ageMs, type Clock, type Instant } from './age.js';
import type { LruCache, LruCacheConstructor } from './load-lru-cache.js';

/** What a store says to the begin of a finished record. */
export type FinishedReply = Extract<BeginReply, { readonly kind: FinishedState }>;

interface KeptReply {
  readonly kind: FinishedState;
  /** What the begin carried, and so what the record has. */
  readonly fingerprint: Fingerprint;
  readonly header: string;
  /** Its own: of a view, the whole buffer behind it would stay. */
  readonly body: Uint8Array;
  /** When the begin was sent. */
  readonly askedAt: Instant;
  /** Milliseconds from then, or from a little later. */
  readonly retentionLeftMs: number;
}

/** Two bytes for each letter, as V8 needs for a text with a single one beyond Latin-1. */
const LETTER_BYTES = 2;

/** Measured on Node 20: 680 bytes for objects, buffer and places in the list and the map, 850 with what malloc adds. */
const KEEPING_BYTES = 896;

/** One reply must not push out all the others. */
const LARGEST_PART = 1 / 8;

/** Replies of which the time may be over that are looked at with each new one: more than are added, so that none pile up. */
const LOOKED_AT_PER_REPLY = 2;

/** What the store has said of finished records, bounded by bytes and by age. */
export class FinishedReplies {
  private readonly kept: LruCache<KeptReply>;
  private readonly maxAgeMs: number;
  private readonly maxReplyBytes: number;

  constructor(
    Lru: LruCacheConstructor,
    { maxBytes, maxAgeMs }: ResolvedCacheOptions,
    private readonly clock: Clock,
  ) {
    this.kept = new Lru({ maxSize: maxBytes });
    this.maxAgeMs = maxAgeMs;
    this.maxReplyBytes = maxBytes * LARGEST_PART;
  }

  /** What is taken of `maxBytes`. */
  get bytes(): number {
    return this.kept.calculatedSize;
  }

  get size(): number {
    return this.kept.size;
  }

  /** What the store would say to a begin with this fingerprint, or `undefined` where it has to be asked. */
  find(recordKey: RecordKey, fingerprint: Fingerprint): BeginReply | undefined {
    const kept = this.kept.get(recordKey);
    if (kept === undefined) return undefined;
    const leftMs = this.leftMs(kept, this.clock());
    if (leftMs === undefined) {
      this.kept.delete(recordKey);
      return undefined;
    }
    if (kept.fingerprint !== fingerprint) return { kind: 'mismatch' };
    const { kind, header, body } = kept;
    // A copy: whoever gets it may write into it, a codec of the user's own say.
    const outcome = { header, body: Buffer.from(body) };
    return { kind, outcome, retentionLeftMs: leftMs, fromCache: true };
  }

  /**
   * @param fingerprint - what the begin carried.
   * @param askedAt - before the begin was sent: by the time of its reply some of the retention is over.
   */
  keep(
    recordKey: RecordKey,
    fingerprint: Fingerprint,
    { kind, outcome, retentionLeftMs }: FinishedReply,
    askedAt: Instant,
  ): void {
    this.sweep();
    const { header, body } = outcome;
    const letters = recordKey.length + fingerprint.length + header.length;
    const size = body.length + LETTER_BYTES * letters + KEEPING_BYTES;
    if (size > this.maxReplyBytes) return;
    const reply = { kind, fingerprint, header, body: new Uint8Array(body), askedAt };
    this.kept.set(recordKey, { ...reply, retentionLeftMs }, { size });
  }

  clear(): void {
    this.kept.clear();
  }

  /**
   * How long the record is still kept, at the least; `undefined` once the store has to be asked again. A store counts
   * in whole milliseconds, so that the last one it speaks of may be over.
   */
  private leftMs({ askedAt, retentionLeftMs }: KeptReply, now: Instant): number | undefined {
    const age = ageMs(askedAt, now);
    const leftMs = Math.floor(retentionLeftMs - age);
    return age < this.maxAgeMs && leftMs >= 1 ? leftMs : undefined;
  }

  /** Whatever is never asked for again sinks to the end of the list, and leaves there. */
  private sweep(): void {
    const now = this.clock();
    let looked = 0;
    for (const recordKey of this.kept.rkeys()) {
      if (looked === LOOKED_AT_PER_REPLY) return;
      looked += 1;
      const kept = this.kept.peek(recordKey);
      if (kept !== undefined && this.leftMs(kept, now) === undefined) this.kept.delete(recordKey);
    }
  }
}
