import type { OutcomeCodec } from '../record/outcome-codec.js';
import type { FinishedState } from '../record/record.js';
import {
  COMPRESSION,
  DEFAULT_MAX_UPLOADS,
  DICTIONARIES,
  OFFLOAD,
  type CompressionOptions,
  type DictionariesOptions,
  type OffloadOptions,
  type ResolvedPackOptions,
} from '../payload/pack-options.js';
import type { Dictionaries } from '../payload/compression.js';
import type { IsolationLevel } from '../transaction/unit-of-work.js';
import {
  DEFAULT_COMMAND_TIMEOUT_MS,
  millisecondsOf,
  type Duration,
  type InMilliseconds,
} from '../options/duration.js';
import {
  durationsFrom,
  durationWithin,
  throwOptionError,
  wrongResult,
  type OptionObserver,
} from '../options/option-checks.js';
import {
  choice,
  flag,
  duration,
  integer,
  isFunction,
  of,
  resolve,
  resolveGroup,
  type Field,
  type Group,
  type Schema,
} from '../options/option-schema.js';
import { keepResponses, type OutcomePolicy, type OutcomeSummary } from './outcome-policy.js';
import type { Recover } from './recovery.js';

/** Which outcomes are kept, for how long, and how they are stored. */
export interface OutcomeOptions {
  /**
   * Which outcomes are kept and replayed. After any other outcome, a retry runs the operation again.
   * @defaultValue 2xx, 3xx, and 4xx but 401, 403, 408, 412, 425 and 429; on all but HTTP, values and no errors
   */
  readonly keep?: OutcomePolicy;
  /**
   * How long an outcome can be replayed, from its completion; replays do not extend it (contract C80–C82a). A function
   * can choose it by the outcome, for example shorter for a kept failure. The default then applies to records in
   * progress. An outcome for which the function throws or returns an invalid value is kept for the default or, if that is
   * longer, for the longest time that it has returned, which the log and the event `option_failed` say.
   * @defaultValue '24h', from '1ms' to '365d'
   */
  readonly retention?:
    Duration | ((outcome: OutcomeSummary & { state: FinishedState }) => Duration);
  /**
   * How long the header and body of an outcome can be replayed, from its completion: at most `retention`. After that, and
   * until the retention is over, a retry does not run the operation again: it gets 409 "response not kept" (C87d). A body
   * in a blob store is deleted by that age; one in a record is no longer given out, and is deleted with the record.
   * @defaultValue `retention`, from '1ms' to '365d'
   */
  readonly bodyRetention?: Duration;
  /** `false` stores only that the operation is done: a retry gets 409 "response not kept" (C87d). @defaultValue true */
  readonly storeBody?: boolean;
  /**
   * Maximum bytes of a body that is stored in a record, and that of an HTTP response is held in memory. A larger one goes to
   * the blob store (`offload`); a value of a call, message, field or socket up to 64 MiB, as it is read into memory. Without
   * a blob store it is sent; only that the operation is done is stored, and a retry gets 409 "response not kept" (contract
   * C70a).
   * @defaultValue 1_048_576, from 0 to 67_108_864
   */
  readonly maxBytes?: number;
  /**
   * Encodes and decodes values of calls, messages and GraphQL fields. Every caller, also the first, gets a value as it
   * was stored.
   * @defaultValue `jsonCodec()`; for messages and gateways, whose wire is JSON, `jsonCodec({ dates: 'text' })`
   */
  readonly codec?: OutcomeCodec;
  /**
   * Compresses outcomes, where that makes them smaller by an eighth; what is compact already is recognised by its first 4
   * KB. `true` for the defaults. Outcomes are read whatever this says. With encryption, the length of a record then depends
   * on its content: `false` for operations of which one caller chooses a part of the response, another part of which is a
   * secret of another caller.
   * @defaultValue false
   */
  readonly compression?: boolean | CompressionOptions;
  /**
   * Dictionaries for `compression` with `'deflate'`. Keep one as long as records that need it: their retention.
   * @defaultValue none
   */
  readonly dictionaries?: DictionariesOptions;
  /**
   * Encrypts outcomes by AES-256-GCM with the keys of the module option `secrets`, each bound to its record, state and
   * content. Encrypted outcomes are read whatever this says.
   * @defaultValue `true` where the module has `secrets`
   */
  readonly encryption?: boolean;
  /**
   * When a body goes to the blob store of the module option `blobs`, with a pointer to it in the record. Up to `maxBytes`,
   * it is held in memory meanwhile; a larger one is streamed there, and from there to its callers. `false` keeps bodies in
   * the record.
   */
  readonly offload?: false | OffloadOptions;
}

/** What a duplicate of an operation in progress gets. */
export interface DuplicatesOptions {
  /**
   * `'reject'`: a 409 with Retry-After at once. `'wait'`: the first outcome once stored (contract C50, C55).
   * @defaultValue 'reject'
   */
  readonly mode?: 'reject' | 'wait';
  /**
   * How long a duplicate waits before it is rejected, and an attempt that has lost its record waits for the attempt that
   * has it. An HTTP client can shorten it with `Prefer: wait=N`, in seconds (RFC 7240 §4.3).
   * @defaultValue '10s', from '1ms' to '1h'
   */
  readonly timeout?: Duration;
  /** The Retry-After of a rejected request; HTTP rounds it up to seconds. @defaultValue '1s', from '1ms' to '24h' */
  readonly retryAfter?: Duration;
}

/** How long an attempt may run, and what follows if it does not end. */
export interface LeaseOptions {
  /**
   * Length of the lease, an attempt's time-limited right to run. It is extended after each third while the operation
   * runs: it limits how long a crash blocks a key, not how long the operation may take.
   * @defaultValue '10s', from '100ms' to '1h'
   */
  readonly duration?: Duration;
  /**
   * The hard deadline: a hung operation loses its key (event `slow_attempt` after half). At least `duration`.
   * @defaultValue '5m', from '100ms' to '24h'
   */
  readonly maxExecution?: Duration;
  /**
   * What to do after an attempt's lease has expired, when it is unknown whether it had its effect: `'run'` the
   * operation again, with `isTakeover` in its context; `'reject'` with 409 outcome unknown, for operations that must
   * never run twice. A {@link Recover} function looks up the business data and returns `'run'`, or `{ value }` with
   * what the operation would have returned; its records in progress contain operation, scope and key in readable form.
   * @defaultValue 'run'
   */
  readonly onTakeover?: 'run' | 'reject' | Recover;
  /**
   * When the function given as `onTakeover` is asked: `'takeover'`, when an attempt follows one whose outcome is unknown;
   * `'always'`, before every attempt. So it finds what ran before this package did: the records of another library while
   * you migrate, or business data that is older than the retention. `isTakeover` of its context tells the two apart.
   * @defaultValue 'takeover'
   */
  readonly recoverOn?: 'takeover' | 'always';
}

/** What happens when the store does not reply. */
export interface StoreErrorsOptions {
  /**
   * If the store is unavailable before the operation starts: `'reject'` with 503 (contract C87), or `'execute'` without
   * protection, reported by the event `unprotected` and the HTTP header `Idempotency-Status: unprotected`.
   * @defaultValue 'reject'
   */
  readonly whenUnavailable?: 'reject' | 'execute';
  /**
   * If the operation is done, but its outcome is not stored within `saveTimeout`: `'respond'` with it, as a client
   * with a response does not retry, or `'error'`, a 503. Saving continues in the background (contract C87a).
   * @defaultValue 'respond'
   */
  readonly whenNotSaved?: 'respond' | 'error';
  /**
   * The timeout of a store command, including resends. For a heartbeat, at most a quarter of its lease.
   * @defaultValue '500ms', from '1ms' to '1m'
   */
  readonly commandTimeout?: Duration;
  /**
   * How long a response waits until its outcome is stored or its key released.
   * @defaultValue '1s', from '1ms' to '1m'
   */
  readonly saveTimeout?: Duration;
}

/** The transaction of an operation. */
export interface TransactionalOptions {
  /**
   * The isolation level: `'read committed'`, `'repeatable read'`, `'serializable'`, or `'default'`, the database's
   * default.
   * @defaultValue 'default'
   */
  readonly isolation?: IsolationLevel | 'default';
  /**
   * How often to retry an operation in a new transaction after a conflict with a concurrent one (serialization failure,
   * deadlock). Then the caller gets a retryable error. On HTTP, only conflicts while the handler runs are retried: at the
   * commit the response is already made, and the client must retry.
   * @defaultValue 0, from 0 to 10
   */
  readonly conflictRetries?: number;
}

/** How an operation is protected, on every transport. */
export interface ProtocolOptions {
  /** Which outcomes are kept, for how long, and how they are stored. A function sets `keep`. */
  readonly outcome?: OutcomePolicy | OutcomeOptions;
  /** What a duplicate of an operation in progress gets. `'reject'` or `'wait'` sets `mode`. */
  readonly duplicates?: 'reject' | 'wait' | DuplicatesOptions;
  /** How long an attempt may run, and what follows if it does not end. */
  readonly lease?: LeaseOptions;
  /** What happens when the store does not reply. */
  readonly storeErrors?: StoreErrorsOptions;
  /**
   * Whether to run the operation in a transaction of the module option `unitOfWork`. The operation's writes and its
   * outcome are committed together, or not at all. If the operation throws, or its outcome is not kept, they are rolled
   * back. Requires a store in the same database. `storeErrors.whenNotSaved` is then always `'error'`. An object turns it
   * on, too; `false` keeps the fields of outer levels for an inner `true`.
   * @defaultValue false
   */
  readonly transaction?: boolean | TransactionalOptions;
}

export interface ResolvedOutcome
  extends
    InMilliseconds<
      Required<
        Omit<
          OutcomeOptions,
          'bodyRetention' | 'compression' | 'dictionaries' | 'encryption' | 'offload'
        >
      >
    >,
    ResolvedPackOptions {
  readonly dictionaries?: Dictionaries;
}

export interface ResolvedProtocolOptions {
  /** Each kind of operation has its own default of `codec`. */
  readonly outcome: Omit<ResolvedOutcome, 'codec'> & Pick<OutcomeOptions, 'codec'>;
  readonly duplicates: InMilliseconds<Required<DuplicatesOptions>>;
  readonly lease: InMilliseconds<Required<LeaseOptions>>;
  readonly storeErrors: InMilliseconds<Required<StoreErrorsOptions>>;
  readonly transaction: false | Required<TransactionalOptions>;
}

/**
 * Limits of the process, not of an operation. A caller is one scope; without one (an empty scope, `anonymous: 'shared'`, a
 * message without a tenant) no limit for each caller applies.
 */
export interface LimitsOptions {
  /**
   * How many duplicates can wait at a time in this process; more are rejected.
   * @defaultValue 1_000, from 0 to 1_000_000
   */
  readonly maxWaiters?: number;
  /**
   * How many of them can wait for the same key; more are rejected, so that others find a place.
   * @defaultValue a tenth of `maxWaiters`, at least 1, from 1 to 1_000_000
   */
  readonly maxWaitersPerKey?: number;
  /**
   * How many of them can be of the same caller; more are rejected, so that other callers find a place.
   * @defaultValue a quarter of `maxWaiters`, at least 1, from 1 to 1_000_000
   */
  readonly maxWaitersPerCaller?: number;
  /**
   * How many operations of the same caller can run at a time in this process. One more is not run: 429
   * `idempotency_too_many_attempts`. Replays are not limited, nor is what an operation calls, nor a takeover.
   * @defaultValue no limit, from 1 to 1_000_000
   */
  readonly maxAttemptsPerCaller?: number;
  /**
   * How many bodies this process puts into the blob store at a time. One more waits, and its handler with it, for at most
   * `outcome.offload.putTimeout`; after that, only that its operation is done is kept. A body that is put in the transaction
   * of its operation has that connection, and does not count.
   * @defaultValue 16, from 1 to 1_000_000
   */
  readonly maxUploads?: number;
  /** How long a shutdown waits for running operations and pending saves. @defaultValue '10s', from '0ms' to '1h' */
  readonly shutdownTimeout?: Duration;
}

export type ResolvedLimits = InMilliseconds<Required<Omit<LimitsOptions, PerHolder>>> &
  Pick<LimitsOptions, PerHolder>;

type PerHolder = 'maxWaitersPerKey' | 'maxWaitersPerCaller' | 'maxAttemptsPerCaller';

const RETENTION = { default: '24h', min: '1ms', max: '365d' } as const;
const DEFAULT_RETENTION_MS = Number(millisecondsOf(RETENTION.default));
const MAX_RETENTION_MS = Number(millisecondsOf(RETENTION.max));
const MAX_EXECUTION = { default: '5m', min: '100ms', max: '24h' } as const;

export const OUTCOME: Group<OutcomeOptions, ResolvedProtocolOptions['outcome']> = {
  fields: {
    keep: of('a function', isFunction, {
      default: keepResponses,
      defaultText:
        '2xx, 3xx, and 4xx but 401, 403, 408, 412, 425 and 429; on all but HTTP, values and no errors',
    }),
    retention: duration({ ...RETENTION, orFunction: true }),
    bodyRetention: withDefaultText(duration(RETENTION), '`retention`'),
    storeBody: flag(true),
    maxBytes: integer({ default: 1_048_576, min: 0, max: 67_108_864 }),
    codec: {
      defaultText:
        "`jsonCodec()`; for messages and gateways, whose wire is JSON, `jsonCodec({ dates: 'text' })`",
      check: checkCodec,
    },
    compression: COMPRESSION,
    dictionaries: DICTIONARIES,
    encryption: of('true or false', (value) => typeof value === 'boolean', {
      defaultText: '`true` where the module has `secrets`',
    }),
    offload: OFFLOAD,
  },
  shorthand: 'keep',
  check: ({ retention, bodyRetention }) => {
    if (typeof retention !== 'number' || bodyRetention === undefined) return;
    if (bodyRetention <= retention) return;
    const most = `at most outcome.retention, which is ${retention}ms`;
    throwOptionError('outcome.bodyRetention', most, `${bodyRetention}ms`);
  },
};

const DUPLICATES: Group<DuplicatesOptions, ResolvedProtocolOptions['duplicates']> = {
  fields: {
    mode: choice(['reject', 'wait'], { default: 'reject' }),
    timeout: duration({ default: '10s', min: '1ms', max: '1h' }),
    retryAfter: duration({ default: '1s', min: '1ms', max: '24h' }),
  },
  shorthand: 'mode',
};

const LEASE: Group<LeaseOptions, ResolvedProtocolOptions['lease']> = {
  fields: {
    duration: duration({ default: '10s', min: '100ms', max: '1h' }),
    maxExecution: duration(MAX_EXECUTION),
    onTakeover: choice(['run', 'reject'], { default: 'run', orFunction: true }),
    recoverOn: choice(['takeover', 'always'], { default: 'takeover' }),
  },
  check: ({ duration: durationMs, maxExecution: maxExecutionMs, onTakeover, recoverOn }) => {
    if (maxExecutionMs < durationMs) {
      // Either may be a default that the user has not set.
      throwOptionError(
        'lease.maxExecution',
        `at least "lease.duration", which is ${durationMs} ms: raise it, or shorten the lease`,
        `${maxExecutionMs} ms`,
      );
    }
    if (recoverOn === 'always' && !isFunction(onTakeover)) {
      throwOptionError(
        'lease.onTakeover',
        "a function, because lease.recoverOn is 'always'",
        onTakeover,
      );
    }
  },
};

const STORE_ERRORS: Group<StoreErrorsOptions, ResolvedProtocolOptions['storeErrors']> = {
  fields: {
    whenUnavailable: choice(['reject', 'execute'], { default: 'reject' }),
    whenNotSaved: choice(['respond', 'error'], { default: 'respond' }),
    commandTimeout: duration({ default: `${DEFAULT_COMMAND_TIMEOUT_MS}ms`, min: '1ms', max: '1m' }),
    saveTimeout: duration({ default: '1s', min: '1ms', max: '1m' }),
  },
};

const TRANSACTION: Group<TransactionalOptions, Required<TransactionalOptions>> = {
  fields: {
    isolation: choice(['default', 'read committed', 'repeatable read', 'serializable'], {
      default: 'default',
    }),
    conflictRetries: integer({ default: 0, min: 0, max: 10 }),
  },
  isSwitched: true,
};

export const PROTOCOL: Schema<ProtocolOptions, ResolvedProtocolOptions> = {
  outcome: OUTCOME,
  duplicates: DUPLICATES,
  lease: LEASE,
  storeErrors: STORE_ERRORS,
  transaction: TRANSACTION,
};

export const LIMITS: Group<LimitsOptions, ResolvedLimits> = {
  fields: {
    maxWaiters: integer({ default: 1_000, min: 0, max: 1_000_000 }),
    maxWaitersPerKey: numberOf('a tenth of `maxWaiters`, at least 1'),
    maxWaitersPerCaller: numberOf('a quarter of `maxWaiters`, at least 1'),
    maxAttemptsPerCaller: numberOf('no limit'),
    maxUploads: integer({ default: DEFAULT_MAX_UPLOADS, min: 1, max: 1_000_000 }),
    shutdownTimeout: duration({ default: '10s', min: '0ms', max: '1h' }),
  },
  places: ['module'],
};

export const PROTOCOL_DEFAULTS = resolve(PROTOCOL, []);

export const DEFAULT_LIMITS = resolveGroup('limits', LIMITS);

/** A limit of at least 1 whose default is no plain number. */
function numberOf(defaultText: string) {
  return withDefaultText(integer({ default: 1, min: 1, max: 1_000_000 }), defaultText);
}

function withDefaultText<Value>({ default: _, ...field }: Field<Value>, defaultText: string) {
  return { ...field, defaultText };
}

/** Shows only the type: the value may be anything. */
function checkCodec(option: string, codec: unknown): void {
  const { name, encode, decode } = (codec ?? {}) as Partial<OutcomeCodec>;
  const isCodec =
    typeof name === 'string' && name !== '' && isFunction(encode) && isFunction(decode);
  if (!isCodec) throwOptionError(option, 'an OutcomeCodec, such as jsonCodec()', typeof codec);
}

type Retention = Pick<ResolvedProtocolOptions, 'outcome'>;

export function unfinishedRetentionMs({ outcome: { retention } }: Retention): number {
  return typeof retention === 'number' ? retention : DEFAULT_RETENTION_MS;
}

/** How long a record in progress is kept, from its begin or last extension. */
export function inProgressRetentionMs(options: ResolvedProtocolOptions): number {
  return unfinishedRetentionMs(options) + options.lease.maxExecution;
}

/** The longest time that each function has returned, where it is longer than the default. */
const longest = new WeakMap<object, number>();

/** The operation has had its effect: if the function fails, its outcome is kept for the longest time that is known. */
export function finishedRetentionMs(
  { outcome: { retention } }: Retention,
  summary: OutcomeSummary & { state: FinishedState },
  observer: OptionObserver,
): number {
  if (typeof retention === 'number') return retention;
  const known = longest.get(retention) ?? DEFAULT_RETENTION_MS;
  let chosen: unknown;
  let chosenMs = NaN;
  try {
    chosen = retention(summary);
    chosenMs = millisecondsOf(chosen) ?? Number(chosen);
    if (durationWithin(chosen, RETENTION.min, RETENTION.max) === undefined) {
      const range = durationsFrom(RETENTION.min, RETENTION.max);
      throw wrongResult('outcome.retention', range, chosen);
    }
  } catch (error) {
    observer.optionFailed('outcome.retention', error);
    return chosenMs > MAX_RETENTION_MS ? MAX_RETENTION_MS : known;
  }
  if (chosenMs > known) longest.set(retention, chosenMs);
  return chosenMs;
}
