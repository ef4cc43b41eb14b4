import type { FinishedState, RecordKey } from './record.js';

interface EventBase {
  /** The operation's stable name. */
  readonly operation: string;
  /** The digest that a store looks up: it says nothing of the key or the caller, but ties events together. */
  readonly recordKey: RecordKey;
}

/** The attempt that an event is about. */
export interface AttemptSubject extends EventBase {
  readonly attempt: number;
  /** 0 in an unprotected run. */
  readonly fencingToken: number;
}

/** Why a request was not executed and got no stored outcome. */
export type RejectionReason =
  'mismatch' | 'in_progress' | 'outcome_unknown' | 'store_unavailable' | 'shutting_down';

/** Why an attempt may no longer count on its lease. */
export type LeaseLossReason =
  /** Another attempt has the record. */
  | 'lost'
  /** The record vanished from the store. */
  | 'gone'
  /** The attempt ran into its hard deadline. */
  | 'max_execution'
  /** No extension was confirmed in time. */
  | 'expired'
  /** The connection of its transaction is gone, and all that was written over it. */
  | 'connection_lost';

/** What befalls the store as a whole belongs to no operation. */
interface StoreEventBase {
  readonly operation?: undefined;
  readonly recordKey?: undefined;
}

/** How the circuit breaker around the store changes its state (module option `breaker`). */
export type BreakerEvent =
  /** Begins are refused at once from now on; `error` was the last straw. Comes again after a probe that failed. */
  | (StoreEventBase & { readonly type: 'breaker_opened'; readonly error: Error })
  /** The store is being probed; begins are still refused. */
  | (StoreEventBase & { readonly type: 'breaker_half_open' })
  /** The store has answered. */
  | (StoreEventBase & { readonly type: 'breaker_closed' });

/**
 * A connection of the store gave the reply of another command. Nothing was read from it, and the connection was ended;
 * requests that were on their way over it get a 503, and `error` says what to look for.
 */
export type ReplyMismatchedEvent = StoreEventBase & {
  readonly type: 'reply_mismatched';
  readonly error: Error;
};

/** Everything that happens to an idempotent operation or its store, as it is told to subscribers. */
export type IdempotencyEvent =
  | (AttemptSubject & { readonly type: 'acquired' })
  /** The lease of an earlier attempt of this key ran out: its fate is unknown, this one runs. */
  | (AttemptSubject & { readonly type: 'takeover' })
  /** What an earlier attempt has done was found by `onTakeover` and is the outcome; the operation did not run. */
  | (AttemptSubject & { readonly type: 'recovered' })
  /** The reconciler asked `onTakeover`, which threw `error` or was not done in time: it has found nothing out. */
  | (AttemptSubject & { readonly type: 'recovery_failed'; readonly error: unknown })
  | (EventBase & { readonly type: 'replayed'; readonly state: FinishedState })
  /** A duplicate waited for the attempt in progress. */
  | (EventBase & { readonly type: 'waited'; readonly waitedMs: number })
  | (EventBase & { readonly type: 'rejected'; readonly reason: RejectionReason })
  | (AttemptSubject & {
      readonly type: 'completed';
      readonly state: FinishedState;
      /** Whether the lease was over, or the answer had already left, when the outcome was stored. */
      readonly late: boolean;
      readonly durationMs: number;
    })
  | (AttemptSubject & { readonly type: 'released'; readonly durationMs: number })
  /**
   * The store has not confirmed that the attempt let go: another one has its key, or the key comes free
   * with the lease.
   */
  | (AttemptSubject & { readonly type: 'release_failed' })
  /** The attempt has used half of `maxExecutionMs`. */
  | (AttemptSubject & { readonly type: 'slow_attempt'; readonly elapsedMs: number })
  /** May come twice for one attempt: once it is `expired`, and once another one is known to have it. */
  | (AttemptSubject & { readonly type: 'lease_lost'; readonly reason: LeaseLossReason })
  /** Another attempt's success stands in place of this one's. */
  | (AttemptSubject & { readonly type: 'superseded' })
  /**
   * Attempts of one key ended differently: a kept failure stands, or this one's success could not be stored. Also where the key
   * was used for another content since, whose outcome stands: that is told to nobody but its own callers.
   */
  | (AttemptSubject & { readonly type: 'outcome_diverged' })
  /** The operation succeeded, what went out afterwards says otherwise; it is kept, for a repetition would repeat the effect. */
  | (AttemptSubject & { readonly type: 'response_diverged' })
  /** The record vanished under a live holder. */
  | (AttemptSubject & { readonly type: 'record_lost' })
  /** The outcome is not stored yet; saving goes on in the background. */
  | (AttemptSubject & { readonly type: 'save_delayed' })
  /** The outcome was not stored, and is not going to be: nobody confirmed it in time, or it is a failure of a record that is gone. */
  | (AttemptSubject & { readonly type: 'save_failed' })
  /**
   * The transaction of an operation that had succeeded could not be committed: nothing of it is left. `error` is the
   * database's, or undefined where there was no answer.
   */
  | (AttemptSubject & { readonly type: 'rolled_back'; readonly error: unknown })
  /** The same because of a concurrent transaction: it may succeed when it is tried again. */
  | (AttemptSubject & { readonly type: 'conflicted' })
  /** The transaction was committed, and what was to follow (`onCommitted`) has failed. */
  | (AttemptSubject & { readonly type: 'commit_hook_failed'; readonly error: unknown })
  /** The operation runs without a record, as `onStoreUnavailable: 'execute'` allows. */
  | (AttemptSubject & { readonly type: 'unprotected' })
  | (EventBase & { readonly type: 'store_unavailable'; readonly error: Error })
  | ReplyMismatchedEvent
  | BreakerEvent;

/** The names of all events. */
export type IdempotencyEventType = IdempotencyEvent['type'];

/** Events that someone should look at: they are logged unless a subscriber takes that over. */
export const CRITICAL_EVENTS: ReadonlySet<IdempotencyEventType> = new Set<IdempotencyEventType>([
  'record_lost',
  'superseded',
  'outcome_diverged',
  'save_delayed',
  'save_failed',
  'recovery_failed',
  'rolled_back',
  'commit_hook_failed',
  'store_unavailable',
  'unprotected',
  'breaker_opened',
  'reply_mismatched',
]);

/** Told of every event, in the order of subscription; a promise that it returns is not waited for. */
export type IdempotencyEventListener = (event: IdempotencyEvent) => unknown;

export interface SubscribeOptions {
  /**
   * This subscriber reports critical events itself: the library no longer logs them.
   * @defaultValue false
   */
  readonly replacesLog?: boolean;
}

/** Where to learn what happens; injectable. A subscriber's error never reaches a request. */
export class IdempotencyEvents {
  private readonly subscriptions = new Set<Subscription>();
  private reporter: IdempotencyEventReporter = SILENT;

  /** @returns a function that ends the subscription. */
  subscribe(listener: IdempotencyEventListener, options: SubscribeOptions = {}): () => void {
    const subscription = { listener, replacesLog: options.replacesLog ?? false };
    this.subscriptions.add(subscription);
    return () => {
      this.subscriptions.delete(subscription);
    };
  }

  /** @internal Names who logs critical events and subscribers' errors. */
  reportTo(reporter: IdempotencyEventReporter): void {
    this.reporter = reporter;
  }

  /** @internal Never throws. */
  emit(event: IdempotencyEvent): void {
    let logged = false;
    for (const { listener, replacesLog } of this.subscriptions) {
      logged ||= replacesLog;
      this.notify(listener, event);
    }
    if (!logged && CRITICAL_EVENTS.has(event.type)) {
      this.report((reporter) => {
        reporter.critical(event);
      });
    }
  }

  private notify(listener: IdempotencyEventListener, event: IdempotencyEvent): void {
    const failed = (error: unknown) => {
      this.report((reporter) => {
        reporter.subscriberFailed(event, error);
      });
    };
    try {
      const result = listener(event);
      if (result instanceof Promise) result.catch(failed);
    } catch (error) {
      failed(error);
    }
  }

  /** A logger that fails must not fail a request. */
  private report(call: (reporter: IdempotencyEventReporter) => void): void {
    try {
      call(this.reporter);
    } catch {
      // There is nobody left to tell.
    }
  }
}

interface Subscription {
  readonly listener: IdempotencyEventListener;
  readonly replacesLog: boolean;
}

/** @internal */
export interface IdempotencyEventReporter {
  critical(event: IdempotencyEvent): void;
  subscriberFailed(event: IdempotencyEvent, error: unknown): void;
}

const SILENT: IdempotencyEventReporter = {
  critical: () => undefined,
  subscriberFailed: () => undefined,
};
