import type { FinishedState, RecordKey } from './record.js';

interface EventBase {
  /** The operation's stable name. */
  readonly operation: string;
  /** The record key. It correlates events without revealing the key or the caller. */
  readonly recordKey: RecordKey;
}

/** The attempt that an event is about. */
export interface AttemptSubject extends EventBase {
  readonly attempt: number;
  /** 0 in an unprotected attempt. */
  readonly fencingToken: number;
}

/** Why a request was rejected: it was not executed and got no stored outcome. */
export type RejectionReason =
  'mismatch' | 'in_progress' | 'outcome_unknown' | 'store_unavailable' | 'shutting_down';

/** Why an attempt can no longer rely on its lease. */
export type LeaseLossReason =
  /** Another attempt has the record. */
  | 'lost'
  /** The record disappeared from the store. */
  | 'gone'
  /** The attempt reached its hard deadline. */
  | 'max_execution'
  /** No extension was confirmed in time. */
  | 'expired'
  /** The connection of its transaction was lost, and with it all that the transaction wrote. */
  | 'connection_lost';

/** Events of the store as a whole belong to no operation. */
interface StoreEventBase {
  readonly operation?: undefined;
  readonly recordKey?: undefined;
}

/** The circuit breaker around the store changes its state (module option `breaker`). */
export type BreakerEvent =
  /** Begins are now rejected at once; `error` is the failure that opened it. Also emitted after each failed probe. */
  | (StoreEventBase & { readonly type: 'breaker_opened'; readonly error: Error })
  /** The store is being probed. Begins are still rejected. */
  | (StoreEventBase & { readonly type: 'breaker_half_open' })
  | (StoreEventBase & { readonly type: 'breaker_closed' });

/** A connection got another command's reply and was closed. Its requests get a 503; `error` says what to check. */
export type ReplyMismatchedEvent = StoreEventBase & {
  readonly type: 'reply_mismatched';
  readonly error: Error;
};

/** All events of idempotent operations and their store. */
export type IdempotencyEvent =
  | (AttemptSubject & { readonly type: 'acquired' })
  /** The lease of an earlier attempt of this key expired: its outcome is unknown, and this attempt runs. */
  | (AttemptSubject & { readonly type: 'takeover' })
  /** `lease.onTakeover` found the result of an earlier attempt. It is the outcome; the operation did not run. */
  | (AttemptSubject & { readonly type: 'recovered' })
  /** The reconciler called `lease.onTakeover`, which threw `error` or timed out. */
  | (AttemptSubject & { readonly type: 'recovery_failed'; readonly error: unknown })
  | (EventBase & { readonly type: 'replayed'; readonly state: FinishedState })
  | (EventBase & { readonly type: 'waited'; readonly waitedMs: number })
  | (EventBase & { readonly type: 'rejected'; readonly reason: RejectionReason })
  | (AttemptSubject & {
      readonly type: 'completed';
      readonly state: FinishedState;
      /** Whether the outcome was stored after the lease expired or after the response was sent. */
      readonly late: boolean;
      readonly durationMs: number;
    })
  | (AttemptSubject & { readonly type: 'released'; readonly durationMs: number })
  /** The store did not confirm the release: another attempt has the key, or it becomes free with the lease. */
  | (AttemptSubject & { readonly type: 'release_failed' })
  /** The attempt has used half of `lease.maxExecutionMs`. */
  | (AttemptSubject & { readonly type: 'slow_attempt'; readonly elapsedMs: number })
  /** Emitted up to twice per attempt: as `expired`, and when another attempt is known to have the record. */
  | (AttemptSubject & { readonly type: 'lease_lost'; readonly reason: LeaseLossReason })
  /** Another attempt's success is stored instead of this attempt's. */
  | (AttemptSubject & { readonly type: 'superseded' })
  /**
   * Attempts of one key ended differently: a kept failure is stored, or this attempt's success could not be stored. Also
   * emitted if the key has since been reused for other content, whose outcome only its own callers get.
   */
  | (AttemptSubject & { readonly type: 'outcome_diverged' })
  /** The operation succeeded, but its response reports a failure. It is kept: a retry would repeat the effect. */
  | (AttemptSubject & { readonly type: 'response_diverged' })
  /** The record disappeared while an attempt held it. */
  | (AttemptSubject & { readonly type: 'record_lost' })
  /** The outcome is not stored yet. Saving continues in the background. */
  | (AttemptSubject & { readonly type: 'save_delayed' })
  /** The outcome is not stored: the store did not confirm it in time, or it is a failure whose record is gone. */
  | (AttemptSubject & { readonly type: 'save_failed' })
  /**
   * The operation succeeded, but its transaction was rolled back. `error` is the database's, undefined without a reply.
   */
  | (AttemptSubject & { readonly type: 'rolled_back'; readonly error: unknown })
  /** The same because of a concurrent transaction. A retry may succeed. */
  | (AttemptSubject & { readonly type: 'conflicted' })
  /** The transaction was committed, but a hook (`onCommitted`) failed. */
  | (AttemptSubject & { readonly type: 'commit_hook_failed'; readonly error: unknown })
  /** The operation runs without a record, as `storeErrors.whenUnavailable: 'execute'` allows. */
  | (AttemptSubject & { readonly type: 'unprotected' })
  | (EventBase & { readonly type: 'store_unavailable'; readonly error: Error })
  | ReplyMismatchedEvent
  | BreakerEvent;

/** The names of all events. */
export type IdempotencyEventType = IdempotencyEvent['type'];

/** Events that need attention. They are logged unless a subscriber has `replacesLog`. */
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

/** Called with every event, in the order of subscription. A returned promise is not awaited. */
export type IdempotencyEventListener = (event: IdempotencyEvent) => unknown;

export interface SubscribeOptions {
  /**
   * Whether this subscriber reports critical events itself, so that the library does not log them.
   * @defaultValue false
   */
  readonly replacesLog?: boolean;
}

/** Emits the library's events. Injectable. A subscriber's error never affects a request. */
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

  /** @internal Sets what logs critical events and subscribers' errors. */
  reportTo(reporter: IdempotencyEventReporter): void {
    this.reporter = reporter;
  }

  /** @internal Without one, an event that is not critical need not be made. */
  get hasSubscribers(): boolean {
    return this.subscriptions.size > 0;
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

  private report(call: (reporter: IdempotencyEventReporter) => void): void {
    try {
      call(this.reporter);
    } catch {
      // A failing logger must not fail a request.
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
