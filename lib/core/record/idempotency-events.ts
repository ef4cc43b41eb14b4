import { nodeClock, type Clock } from '../util/clock.js';
import { errorTypeOf } from '../errors/errors.js';
import type { BlobDirection, BlobObserver } from './blob-observer.js';
import { forget } from '../util/maybe-async.js';
import { EventChannels } from './event-channels.js';
import {
  severityOf,
  type AttemptEnd,
  type AttemptSubject,
  type FrequentEventType,
  type IdempotencyEvent,
  type RejectionReason,
} from './events.js';
import type { RecordKey } from './record.js';

/** Called with every event, in the order of subscription. A returned promise is not awaited. */
export type IdempotencyEventListener = (event: IdempotencyEvent) => unknown;

export interface SubscribeOptions {
  /**
   * Whether this subscriber reports warnings and critical events itself, so that the library does not log them.
   * @defaultValue false
   */
  readonly replacesLog?: boolean;
  /**
   * @internal Asked before a frequent event is made; a subscriber without it wants all. An event need not be made if no
   * subscriber wants it; one that is made goes to all of them.
   */
  readonly wants?: (type: FrequentEventType) => boolean;
}

/** What a request or an attempt is counted for. */
export type CountedSubject = Pick<AttemptSubject, 'operation' | 'transport'>;

export const STORE_COMMANDS = [
  'begin',
  'extend',
  'complete',
  'release',
  'inspect',
  'watch',
  'abandoned',
  'list',
  'amend',
  'transaction_lock',
  'transaction_complete',
  'transaction_ended',
] as const;

/**
 * Those that requests, lease extensions, waiting duplicates and the reconciler send; `inspect` while digest keys rotate.
 * `transaction_lock` and `transaction_complete` are sent on the connection of the operation's transaction.
 */
export type StoreCommand = (typeof STORE_COMMANDS)[number];

/**
 * @internal Counts events. The frequent ones also have methods of their own: without a subscriber, they are counted
 * without being made. The store's commands are no events: they are only counted.
 */
export interface EventCounter extends BlobObserver {
  count(event: IdempotencyEvent): void;
  replayed(subject: CountedSubject): void;
  rejected(subject: CountedSubject, reason: RejectionReason): void;
  ended(subject: CountedSubject, how: AttemptEnd, durationMs: number, isProtected: boolean): void;
  /**
   * @param sentAt - monotonic.
   * @param now - where it is known: to read the clock takes longer than to count.
   */
  commandReplied(command: StoreCommand, sentAt: number, now?: number): void;
  /** @param sentAt - monotonic. */
  commandFailed(command: StoreCommand, sentAt: number, error: unknown): void;
  /** @param bytes - of an outcome that is packed, as its record has it. */
  recordMoved(direction: BlobDirection, bytes: number): void;
}

/**
 * Emits the library's events, to its subscribers and on channels of `node:diagnostics_channel`. Injectable. A subscriber's
 * error never affects a request.
 */
export class IdempotencyEvents {
  private readonly subscriptions = new Set<Subscription>();
  private reporter: IdempotencyEventReporter = SILENT;

  /** @internal */
  readonly channels = new EventChannels();

  /** @internal */
  readonly counter: EventCounter;

  /** @internal */
  constructor(
    counter: EventCounter = UNCOUNTED,
    private readonly clock: Clock = nodeClock,
  ) {
    this.counter = counter;
  }

  /** @returns a function that ends the subscription. */
  subscribe(listener: IdempotencyEventListener, options: SubscribeOptions = {}): () => void {
    const { replacesLog = false, wants } = options;
    const subscription = { listener, replacesLog, wants };
    this.subscriptions.add(subscription);
    return () => {
      this.subscriptions.delete(subscription);
    };
  }

  /** @internal Sets what logs events and subscribers' errors. */
  reportTo(reporter: IdempotencyEventReporter): void {
    this.reporter = reporter;
  }

  /** @internal Otherwise, the event need not be made: it is not logged, and does not count or the counter has a method. */
  wants(type: FrequentEventType): boolean {
    if (this.channels.wants(type)) return true;
    if (this.subscriptions.size === 0) return false;
    for (const { wants } of this.subscriptions) {
      try {
        if (wants === undefined || wants(type)) return true;
      } catch {
        // The listener will fail, too, which is reported.
        return true;
      }
    }
    return false;
  }

  /**
   * @internal Counts a command. It costs a promise, so what each request sends is counted where it is awaited.
   * @param check - throws for a reply that counts as a failure.
   */
  async counted<Reply>(
    command: StoreCommand,
    send: () => Promise<Reply>,
    check?: (reply: Reply) => void,
  ): Promise<Reply> {
    const { counter, clock } = this;
    const sentAt = clock.now();
    try {
      const reply = await send();
      check?.(reply);
      counter.commandReplied(command, sentAt);
      return reply;
    } catch (error) {
      counter.commandFailed(command, sentAt, error);
      throw error;
    }
  }

  /** @internal Reports a mistake in the application's own code that changes no decision. */
  optionFailed(
    about: CountedSubject & { readonly recordKey?: RecordKey },
    option: string,
    error: unknown,
  ): void {
    this.emit({ type: 'option_failed', ...about, option, error, errorType: errorTypeOf(error) });
  }

  /** @internal Never throws. */
  emit(event: IdempotencyEvent): void {
    this.counter.count(event);
    let logged = false;
    for (const { listener, replacesLog } of this.subscriptions) {
      logged ||= replacesLog;
      this.notify(listener, event);
    }
    this.channels.publish(event);
    const severity = severityOf(event);
    if (!logged && (severity === 'warning' || severity === 'critical')) {
      this.report((reporter) => {
        reporter.report(event);
      });
    }
  }

  /** @internal Never throws. */
  telemetryFailed(method: string, error: unknown): void {
    this.report((reporter) => {
      reporter.telemetryFailed?.(method, error);
    });
  }

  private notify(listener: IdempotencyEventListener, event: IdempotencyEvent): void {
    const failed = (error: unknown) => {
      this.report((reporter) => {
        reporter.subscriberFailed(event, error);
      });
    };
    try {
      forget(listener(event), failed);
    } catch (error) {
      failed(error);
    }
  }

  private report(call: (reporter: IdempotencyEventReporter) => void): void {
    try {
      call(this.reporter);
    } catch (error) {
      // A failing logger must not fail a request.
      loggerFailed(error);
    }
  }
}

let hasLoggerFailed = false;

/** Past the logger, and once per process. */
function loggerFailed(error: unknown): void {
  if (hasLoggerFailed) return;
  hasLoggerFailed = true;
  process.emitWarning(
    `The application's logger failed (${errorTypeOf(error) ?? typeof error}) on a line of nestjs-idempotency, which is lost, as later ones may be. Repair the logger that was given to Nest.`,
    { type: 'IdempotencyWarning', code: 'IDEMPOTENCY_LOGGER_FAILED' },
  );
}

interface Subscription {
  readonly listener: IdempotencyEventListener;
  readonly replacesLog: boolean;
  readonly wants: SubscribeOptions['wants'];
}

/** Where warnings and critical events are logged. */
export interface IdempotencyEventReporter {
  /** Logs a warning or a critical event. */
  report(event: IdempotencyEvent): void;
  subscriberFailed(event: IdempotencyEvent, error: unknown): void;
  telemetryFailed?(method: string, error: unknown): void;
}

const SILENT: IdempotencyEventReporter = {
  report: () => undefined,
  subscriberFailed: () => undefined,
};

/** @internal Counts the commands of an engine whose events are its own. */
export function commandsOnly(counter: EventCounter): EventCounter {
  return {
    ...UNCOUNTED,
    commandReplied: (command, sentAt, now) => {
      counter.commandReplied(command, sentAt, now);
    },
    commandFailed: (command, sentAt, error) => {
      counter.commandFailed(command, sentAt, error);
    },
  };
}

const UNCOUNTED: EventCounter = {
  count: () => undefined,
  replayed: () => undefined,
  rejected: () => undefined,
  ended: () => undefined,
  commandReplied: () => undefined,
  commandFailed: () => undefined,
  recordMoved: () => undefined,
  blobMoved: () => undefined,
  uploadWaited: () => undefined,
};
