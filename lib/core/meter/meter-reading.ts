import type {
  AttemptSubject,
  BreakerState,
  IdempotencyEventType,
  LeaseLossReason,
  ReconcileReport,
  Transport,
  UnreadableReason,
  WaitEnd,
} from '../record/events.js';
import type { StoreCommand } from '../record/idempotency-events.js';
import type { BlobDirection, BlobResult, BlobWaitEnd } from '../record/blob-observer.js';
import type { StoreErrorType } from '../errors/errors.js';

/**
 * What this process has counted since its start. What shows a problem is present from the start, at 0, for every known
 * operation; all else as soon as it happens.
 */
export interface MeterReading {
  /** By name. After 200 names, the others count together as `_OTHER`. */
  readonly operations: ReadonlyMap<string, OperationReading>;
  readonly store: StoreReading;
  /** Records of the reconciler, by their result. */
  readonly reconciled: Readonly<Record<ReconcileResult, number>>;
  /**
   * Bytes of packed outcomes as they are stored, by their place, and put or got: of those that are compressed, encrypted, or
   * have their body in a blob store. One of these counts with its blob there, and with its pointer in the record.
   */
  readonly outcomeBytes: Readonly<
    Partial<Record<OutcomePlace, Readonly<Partial<Record<BlobDirection, number>>>>>
  >;
  /** How long the blob store took. */
  readonly blobs: Readonly<
    Partial<Record<BlobDirection, Readonly<Partial<Record<BlobResult, HistogramReading>>>>>
  >;
  /** How long bodies waited for one of the places that `limits.maxUploads` allows. */
  readonly uploadWaits: Readonly<Partial<Record<BlobWaitEnd, HistogramReading>>>;
}

export interface OperationReading {
  /** By transport, and by result. */
  readonly requests: Readonly<
    Partial<Record<Transport, Readonly<Partial<Record<RequestResult, number>>>>>
  >;
  readonly incidents: Readonly<Record<IncidentType, number>>;
  readonly takeovers: number;
  readonly leaseLosses: Readonly<Record<LeaseLossReason, number>>;
  /** Outcomes that could not be read, by the reason. */
  readonly unreadable: Readonly<Partial<Record<UnreadableReason, number>>>;
  /** How long attempts took, from begin to the stored outcome. */
  readonly attempts: Readonly<Partial<Record<AttemptOutcome, HistogramReading>>>;
  /** How long duplicates waited. */
  readonly waits: Readonly<Partial<Record<WaitEnd, HistogramReading>>>;
  /** Attempts that have not ended. */
  readonly running: number;
  /** Duplicates that are waiting. */
  readonly waiting: number;
}

export interface StoreReading {
  /** The store's name of its database system: `redis`, `postgresql`, `memory`, or that of a custom store. */
  readonly system: string;
  /** How long commands took. Only commands and errors that have occurred. */
  readonly commands: readonly StoreCommandReading[];
  /** Absent without a breaker. */
  readonly breaker?: BreakerState;
  /** Expired records that the store has deleted in this process. Absent where the server deletes them itself. */
  readonly deletedRecords?: number;
  /** Entries that the journal of the store lacks, of changes that this process made. Absent without such a journal. */
  readonly missedEntries?: number;
  /** The last failure of a request's command, or of a reconciler round. */
  readonly lastFailure?: {
    /** In milliseconds since the epoch. */
    readonly at: number;
    readonly errorType: StoreErrorType;
  };
}

/**
 * The commands of requests, lease extensions, waiting duplicates and the reconciler, as they experience them: with
 * resends, and with what an open breaker rejects. Probes are not among them.
 */
export interface StoreCommandReading {
  readonly command: StoreCommand;
  /** Only of commands that failed. */
  readonly errorType?: StoreErrorType;
  readonly duration: HistogramReading;
}

/** Durations in seconds. */
export interface HistogramReading {
  /** The upper bounds, inclusive, of all buckets but the last. */
  readonly bounds: readonly number[];
  /** By bucket, not cumulative. The last bucket has no bound. */
  readonly counts: readonly number[];
  readonly count: number;
  readonly sum: number;
}

/** An attempt that has not ended. */
export interface RunningAttempt extends AttemptSubject {
  /** Milliseconds since its begin was sent. */
  readonly elapsedMs: number;
  /** Milliseconds, negative once the lease has expired; `undefined` without a lease that is extended. */
  readonly leaseLeftMs: number | undefined;
}

export const REQUEST_RESULTS = [
  'executed',
  'recovered',
  'replayed',
  'unprotected',
  'mismatch',
  'in_progress',
  'outcome_unknown',
  'store_unavailable',
  'shutting_down',
  'key_missing',
  'key_invalid',
  'caller_unknown',
  'content_invalid',
  'unprotected_no_key',
  'unprotected_no_caller',
  'unprotected_disabled',
  'too_many_attempts',
  'outcome_unreadable',
  'outcome_unavailable',
] as const;

/**
 * `executed` and `recovered` count when the request's attempt has ended, those that begin with `unprotected` when the
 * operation starts, all others when the engine has decided. `unprotected` alone: without the store.
 */
export type RequestResult = (typeof REQUEST_RESULTS)[number];

export const INCIDENTS = [
  'superseded',
  'outcome_diverged',
  'response_diverged',
  'record_lost',
  'save_delayed',
  'save_failed',
  'release_failed',
  'rolled_back',
  'committed_apart',
  'conflicted',
  'commit_hook_failed',
  'recovery_failed',
  'slow_attempt',
  'lease_lost',
  'unprotected',
  'option_failed',
  'key_misnamed',
  'outcome_unreadable',
  'pack_failed',
] as const satisfies readonly IdempotencyEventType[];

/** The events that show a problem. */
export type IncidentType = (typeof INCIDENTS)[number];

/** `kept`: the attempt's outcome is stored. `lost`: another attempt's is. `error`: no outcome is known to be stored. */
export type AttemptOutcome = 'kept' | 'released' | 'lost' | 'error';

export type OutcomePlace = 'record' | 'blob';

export type ReconcileResult = Exclude<keyof ReconcileReport, 'coverage'>;
