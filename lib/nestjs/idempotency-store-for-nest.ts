import { hash } from 'node:crypto';
import { Logger, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import {
  duration,
  resolveOptions,
  type Defaulted,
  type Schema,
} from '../core/options/option-schema.js';
import type { Duration, InMilliseconds } from '../core/options/duration.js';
import type { BeginReply } from '../core/record/commands.js';
import {
  UNKNOWN_FENCE,
  type Fingerprint,
  type Lease,
  type Outcome,
  type RecordKey,
} from '../core/record/record.js';
import { newOwnerToken, tagged } from '../core/record/record-key.js';
import type { IdempotencyStore, StoreObserver } from '../core/store/idempotency-store.js';
import { tryStore } from '../core/store/store-trial.js';
import { IdempotencyOptionsError, StoreUnavailableError } from '../core/errors/errors.js';
import { nodeClock } from '../core/util/clock.js';

/** What the module stores, as JSON: a response or an error, in clear or sealed by its option `encryption`. */
export type NestStoredPayload =
  | {
      status: number;
      headers: Record<string, string | string[]>;
      body: unknown;
      error?: 'http' | 'rpc' | 'graphql';
    }
  | { sealed: string };

/** What `acquire()` found: nothing, so that the caller has the lock now; a lock; or what was stored. */
export type NestAcquireResult =
  | { state: 'acquired' }
  | { state: 'in-flight'; fingerprint: string }
  | { state: 'completed'; fingerprint: string; response: NestStoredPayload };

/** The `IdempotencyStore` of `@nestjs/idempotency` 0.0.3, by structure: nothing of that package is imported. */
export interface NestStore {
  acquire(
    key: string,
    owner: string,
    fingerprint: string,
    lockTtl: number,
  ): Promise<NestAcquireResult>;
  complete(key: string, owner: string, response: NestStoredPayload, ttl: number): Promise<boolean>;
  release(key: string, owner: string): Promise<boolean>;
  extend(key: string, owner: string, lockTtl: number): Promise<boolean>;
}

/** The `IdempotencyStorage` of `@nestjs/idempotency`, by structure. */
export interface NestIdempotencyStorage {
  registerSource(source: NestStore): void;
}

/** Options of {@link IdempotencyStoreForNest}. */
export interface IdempotencyStoreForNestOptions {
  /**
   * How long a command may take, with all its resends. Keep it below the module's `storeTimeout`, so that the store's own
   * error is what its log shows.
   * @defaultValue '2s', from '1ms' to '1m'
   */
  readonly commandTimeout?: Duration | undefined;
}

const OPTIONS: Schema<
  IdempotencyStoreForNestOptions,
  InMilliseconds<Defaulted<IdempotencyStoreForNestOptions>>
> = {
  commandTimeout: duration({ default: '2s', min: '1ms', max: '1m' }),
};

/** The module itself ends a lock after its `maxLockHold`. */
const NO_DEADLINE_MS = 365 * 86_400_000;
/** For how long a released key recognises a late copy of its acquire. */
const TOMBSTONE_MS = 60_000;
/** Between a reply and the look at the record it speaks of, the record may change. */
const MAX_LOOKS = 5;
/** How many attempts, after which those are forgotten whose lock has expired: the store would know nothing of them, too. */
const SWEEP_EVERY = 1_000;

/** An attempt of this process, until it has ended. */
interface Attempt extends Lease {
  fence: number;
  /** By the process' clock, in milliseconds. */
  lockedUntil: number;
}

/**
 * A store for Nest's own module, `@nestjs/idempotency`, on the Redis, PostgreSQL or memory store of this package. Provide it
 * once, beside the module:
 *
 * ```ts
 * {
 *   provide: IdempotencyStoreForNest,
 *   useFactory: (storage: IdempotencyStorage) =>
 *     new IdempotencyStoreForNest(redisStore({ url: process.env.REDIS_URL }), storage),
 *   inject: [IdempotencyStorage],
 * }
 * ```
 *
 * As a provider it opens the store when the application starts, and closes it when that ends. Locks and records expire
 * by the clock of the store's server. Keys of this module and of Nest's never meet; those of several services do, as in
 * each store of Nest's module: give each its own `keyPrefix` or schema.
 */
export class IdempotencyStoreForNest implements NestStore, OnModuleInit, OnApplicationShutdown {
  private readonly logger = new Logger('Idempotency');
  private readonly attempts = new Map<string, Attempt>();
  private readonly timeoutMs: number;
  private acquired = 0;
  private readonly observer: StoreObserver = {
    replyMismatched: (error) => {
      this.logger.error(`reply_mismatched: ${error.message}`);
    },
    warned: ({ code, message }) => {
      this.logger.warn(`${message} [${code}]`);
    },
    entryMissed: (recordKey, reason) => {
      this.logger.warn(`journal_incomplete, record ${recordKey} (${reason})`);
    },
  };

  /**
   * @param storage - of the module: registers this store there.
   * @throws {@link IdempotencyOptionsError} if the store is none of this package, or an option is out of its range.
   */
  constructor(
    private readonly store: IdempotencyStore,
    storage?: NestIdempotencyStorage,
    options: IdempotencyStoreForNestOptions = {},
  ) {
    if (typeof (store as Partial<IdempotencyStore> | undefined)?.begin !== 'function') {
      throw new IdempotencyOptionsError(
        'IdempotencyStoreForNest needs a store of nestjs-idempotency: new IdempotencyStoreForNest(redisStore({ url }), storage), with redisStore of nestjs-idempotency/redis or postgresStore of nestjs-idempotency/postgres.',
      );
    }
    this.timeoutMs = resolveOptions<
      IdempotencyStoreForNestOptions,
      InMilliseconds<Defaulted<IdempotencyStoreForNestOptions>>
    >('IdempotencyStoreForNest', OPTIONS, options).commandTimeout;
    storage?.registerSource(this);
  }

  /** Opens the store, and tries each of its steps. @throws {@link StoreConfigurationError} if it can never work. */
  async onModuleInit(): Promise<void> {
    const { store, observer } = this;
    const warnings = [...(await store.open(observer))];
    try {
      const isOutage = warnings.some((warning) => warning.isOutage);
      const warning = isOutage ? undefined : await tryStore(store);
      if (warning !== undefined) warnings.push(warning);
    } catch (error) {
      await store.close(observer);
      throw error;
    }
    for (const warning of warnings) observer.warned(warning);
  }

  async onApplicationShutdown(): Promise<void> {
    await this.store.close(this.observer);
  }

  /**
   * Takes the lock, or tells what is there.
   * @param lockTtl - milliseconds.
   */
  async acquire(
    key: string,
    owner: string,
    fingerprint: string,
    lockTtl: number,
  ): Promise<NestAcquireResult> {
    const lockMs = wholeMs('lockTtl', lockTtl);
    const recordKey = recordKeyOf(key);
    const token = newOwnerToken(nodeClock);
    const attempt = { recordKey, token, fence: UNKNOWN_FENCE, lockedUntil: 0 };
    const content = contentOf(fingerprint);
    const id = idOf(key, owner);
    const isRepeated = this.attempts.has(id);
    // Before the reply: without one, the module releases what it may have got.
    if (!isRepeated) this.remember(id, attempt, lockMs);
    for (let looks = 0; looks < MAX_LOOKS; looks += 1) {
      const reply = await this.begin(attempt, content, lockMs);
      if ('fence' in reply && reply.kind !== 'abandoned') {
        if (isRepeated) this.attempts.set(id, attempt);
        attempt.fence = reply.fence;
        return { state: 'acquired' };
      }
      const found = await this.foundBy(reply, recordKey, fingerprint);
      if (found === undefined) continue;
      if (!isRepeated) this.attempts.delete(id);
      return found;
    }
    throw new StoreUnavailableError(
      'The record of a key changed each time that it was looked at. Nothing ran: the request can be sent again.',
    );
  }

  /**
   * Stores what the operation resulted in.
   * @param ttl - milliseconds.
   * @returns whether `owner` held the lock.
   */
  async complete(
    key: string,
    owner: string,
    response: NestStoredPayload,
    ttl: number,
  ): Promise<boolean> {
    const retentionMs = wholeMs('ttl', ttl);
    const outcome = { header: HEADER, body: Buffer.from(JSON.stringify(response)) };
    return this.end(key, owner, async (lease) => {
      const { kind } = await this.store.complete(lease, {
        // Whatever it is: a success would also be stored where a later attempt has released the key.
        state: 'failed',
        outcome,
        retentionMs,
        fingerprint: NOT_COMPARED,
        whenGone: 'report',
        timeoutMs: this.timeoutMs,
      });
      return kind === 'ok' || kind === 'ok_late' || kind === 'already';
    });
  }

  /** Frees the key. @returns whether `owner` held the lock. */
  release(key: string, owner: string): Promise<boolean> {
    return this.end(key, owner, async (lease) => {
      const { timeoutMs } = this;
      const { kind } = await this.store.release(lease, { tombstoneMs: TOMBSTONE_MS, timeoutMs });
      return kind === 'ok' || kind === 'already';
    });
  }

  /**
   * Renews the lock.
   * @param lockTtl - milliseconds from now.
   * @returns whether `owner` held it.
   */
  async extend(key: string, owner: string, lockTtl: number): Promise<boolean> {
    const lockMs = wholeMs('lockTtl', lockTtl);
    const attempt = this.attempts.get(idOf(key, owner));
    if (attempt === undefined) return false;
    const { kind } = await this.store.extend(attempt, {
      leaseMs: lockMs,
      recordRetentionMs: lockMs,
      timeoutMs: this.timeoutMs,
    });
    if (kind !== 'ok') return false;
    attempt.lockedUntil = nodeClock.now() + lockMs;
    return true;
  }

  /** The record ends with its lock: for the module, an expired lock does not exist. */
  private begin(
    { recordKey, token }: Lease,
    fingerprint: Fingerprint,
    lockTtl: number,
  ): Promise<BeginReply> {
    return this.store.begin({
      recordKey,
      token,
      fingerprint,
      leaseMs: lockTtl,
      maxExecutionMs: NO_DEADLINE_MS,
      recordRetentionMs: lockTtl,
      notAfter: 0,
      onExpiredLease: 'takeover',
      timeoutMs: this.timeoutMs,
    });
  }

  /** @returns `undefined` if the record has gone meanwhile. */
  private async foundBy(
    reply: BeginReply,
    recordKey: RecordKey,
    fingerprint: string,
  ): Promise<NestAcquireResult | undefined> {
    switch (reply.kind) {
      case 'in_progress':
        return { state: 'in-flight', fingerprint };
      case 'completed':
      case 'failed':
        return completed(fingerprint, reply.outcome);
      case 'mismatch': {
        // The module wants the stored fingerprint, which the reply does not have.
        const record = await this.store.inspect(recordKey, { timeoutMs: this.timeoutMs });
        if (record === undefined || record.state === 'released') return undefined;
        const stored = fingerprintOf(record.fingerprint);
        return record.outcome === undefined
          ? { state: 'in-flight', fingerprint: stored }
          : completed(stored, record.outcome);
      }
      default:
        return undefined;
    }
  }

  /** An attempt ends once: `already` is then the reply to a copy that the store has sent again. */
  private async end(
    key: string,
    owner: string,
    step: (lease: Lease) => Promise<boolean>,
  ): Promise<boolean> {
    const id = idOf(key, owner);
    const attempt = this.attempts.get(id);
    if (attempt === undefined) return false;
    try {
      return await step(attempt);
    } finally {
      this.attempts.delete(id);
    }
  }

  private remember(id: string, attempt: Attempt, lockTtl: number): void {
    const now = nodeClock.now();
    attempt.lockedUntil = now + lockTtl;
    this.attempts.set(id, attempt);
    this.acquired += 1;
    if (this.acquired % SWEEP_EVERY !== 0) return;
    for (const [each, { lockedUntil }] of this.attempts) {
      if (lockedUntil + this.timeoutMs < now) this.attempts.delete(each);
    }
  }
}

const HEADER = 'nestjs 1';
/** Only one outcome is asked for, the attempt's own. */
const NOT_COMPARED = '-' as Fingerprint;

function completed(fingerprint: string, { body }: Outcome): NestAcquireResult {
  const response = JSON.parse(Buffer.from(body).toString()) as NestStoredPayload;
  return { state: 'completed', fingerprint, response };
}

/** No text of this package's own record keys begins so. */
function recordKeyOf(key: string): RecordKey {
  return hash('sha256', `nestjs ${tagged(key)}`, 'base64url') as RecordKey;
}

function idOf(key: string, owner: string): string {
  return `${owner} ${key}`;
}

/** A fraction is rounded up: databases count whole milliseconds. */
function wholeMs(name: string, ms: number): number {
  if (Number.isFinite(ms) && ms > 0) return Math.ceil(ms);
  throw new IdempotencyOptionsError(
    `IdempotencyStoreForNest: "${name}" must be a positive number of milliseconds, but it is ${String(ms)}. Check the option of this name of @nestjs/idempotency.`,
  );
}

const SHA256 = /^[0-9a-f]{64}$/;
const TEXT = '~';

/** The module's own digests take 21 bytes less in base64url; any other text is kept as it is. */
function contentOf(fingerprint: string): Fingerprint {
  const text = SHA256.test(fingerprint)
    ? Buffer.from(fingerprint, 'hex').toString('base64url')
    : TEXT + Buffer.from(fingerprint).toString('base64url');
  return text as Fingerprint;
}

function fingerprintOf(content: Fingerprint): string {
  return content.startsWith(TEXT)
    ? Buffer.from(content.slice(TEXT.length), 'base64url').toString()
    : Buffer.from(content, 'base64url').toString('hex');
}
