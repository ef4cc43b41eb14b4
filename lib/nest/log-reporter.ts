import type { LoggerService } from '@nestjs/common';
import { severityOf, type IdempotencyEvent, type UnreadableReason } from '../core/record/events.js';
import type { IdempotencyEventReporter } from '../core/record/idempotency-events.js';
import { asError, hasCode } from '../core/errors/errors.js';
import { typeName } from '../core/options/option-checks.js';

/** Logs warnings, critical events and failing subscribers, which nothing else reports. */
export class LogReporter implements IdempotencyEventReporter {
  private readonly outage: ThrottledWarning;
  private readonly opening: ThrottledWarning;
  private readonly mismatch: ThrottledWarning;
  /** What is logged once. */
  private readonly known = new Set<string>();

  constructor(private readonly logger: LoggerService) {
    this.outage = new ThrottledWarning(logger);
    this.opening = new ThrottledWarning(logger);
    this.mismatch = new ThrottledWarning(logger);
  }

  report(event: IdempotencyEvent): void {
    switch (event.type) {
      case 'store_unavailable':
        this.outage.warn(`${event.type} in ${event.operation}: ${event.error.message}`);
        return;
      case 'breaker_opened':
        this.opening.warn(`${event.type}: ${event.error.message}`);
        return;
      case 'reply_mismatched':
        this.mismatch.warn(`${event.type}: ${event.error.message}`);
        return;
      case 'keys_stale':
        this.logger.warn(`keys_stale: ${KEYS_STALE} (${whyStale(event)})`);
        return;
      case 'outcome_unreadable':
        this.logger.error(`${lineOf(event)}: ${UNREADABLE[event.reason]}`);
        return;
      case 'option_failed':
        this.optionFailed(event);
        return;
      case 'key_misnamed':
        this.keyMisnamed(event);
        return;
      default:
        if (severityOf(event) === 'critical') this.logger.error(lineOf(event));
        else this.logger.warn(lineOf(event));
    }
  }

  /** Once per operation and option: the function may fail at every request. */
  private optionFailed({ operation, option, error }: OptionFailed): void {
    if (!this.isNew(`${operation} ${option}`)) return;
    const what = AFTER_EFFECT[option] ?? `The function "${option}" failed, and counted as false`;
    const line = `option_failed in ${operation}: ${what}. Later ones are only counted (incident option_failed).`;
    this.logger.warn(`${line}\n${causeOf(error) ?? ''}`);
  }

  /** Once per operation and name. Never with the value. */
  private keyMisnamed({
    operation,
    name,
  }: Extract<IdempotencyEvent, { type: 'key_misnamed' }>): void {
    if (!this.isNew(`${operation} ${name.toLowerCase()}`)) return;
    this.logger.warn(
      `key_misnamed in ${operation}: a request without a key has "${name}", which is not read: it is rejected or, where no key is required, runs without protection. Correct the client, or let the option "key" read it. Later ones are only counted (incident key_misnamed).`,
    );
  }

  private isNew(name: string): boolean {
    if (this.known.has(name) || this.known.size >= MAX_KNOWN) return false;
    this.known.add(name);
    return true;
  }

  subscriberFailed({ type }: IdempotencyEvent, error: unknown): void {
    this.logger.error(`A subscriber to events failed on "${type}".`, causeOf(error));
  }

  telemetryFailed(method: string, error: unknown): void {
    this.logger.error(`${method} of a telemetry failed.`, causeOf(error));
  }
}

type OptionFailed = Extract<IdempotencyEvent, { readonly type: 'option_failed' }>;

/** Clients name headers, and callers of `IdempotencyService.run()` operations, as they like. */
const MAX_KNOWN = 1_000;

const failed = (option: string, instead: string) =>
  `The function given as the option "${option}" failed, when the operation had run. ${instead}`;

const KEYS_STALE =
  'the keys of "secrets" could not be loaded again. Those of the last time are used';

/** Only this package's own message is shown: that of the source may have what it should not. */
function whyStale({ error, errorType }: Extract<IdempotencyEvent, { type: 'keys_stale' }>): string {
  if (hasCode(error, 'idempotency_options_invalid')) return asError(error).message;
  return errorType ?? 'no error';
}

/** What to do. */
const UNREADABLE: Readonly<Record<UnreadableReason, string>> = {
  key: 'this process has no key of its id. Give it to "secrets" of every process, and keep it until the outcomes that it encrypted have expired',
  dictionary:
    'this process has no such dictionary. Give it to "outcome.dictionaries" of the module, and keep it until the outcomes that it compressed have expired',
  algorithm:
    'this version of Node cannot decompress it. Use an algorithm that the Node of every process has',
  blob_missing:
    'the blob that has its body is gone. Look for what deletes blobs before their records, such as a rule of the bucket',
  blob_unavailable: 'the blob store did not deliver its body. Look at the blob store',
  blob_store:
    'its body is in a blob store that this process does not have. Give the same "blobs" to every process',
  integrity:
    'it is damaged, was written for another record, or encrypted with another key of the same id. Look who else writes to the store, and whether an id was given to two keys',
  format: 'it is damaged, or was written by a later version of this package',
};

/** What failed, and the safe side that was taken. */
const AFTER_EFFECT: Readonly<Record<string, string>> = {
  'outcome.keep': failed('outcome.keep', 'The outcome is kept, and every retry gets it'),
  'outcome.retention': failed(
    'outcome.retention',
    'The outcome is kept for a day or, if that is longer, the longest time that the function has returned',
  ),
  'message.onFailure': failed('message.onFailure', 'The message is requeued'),
  'lease.onTakeover':
    'The value that the function given as the option "lease.onTakeover" found cannot be stored. It is kept that the operation is done, without the value',
  'store.watch':
    'The store failed in watch(), or returned no function. Waiting duplicates poll, which is slower',
  response:
    'The response, or the exception thrown as one, cannot be stored. It is kept that the operation is done: a retry does not get the same',
};

function causeOf(error: unknown): string | undefined {
  if (error instanceof Error) return error.stack;
  // Not by String(), which a thrown object may make fail, too.
  return typeof error === 'string' ? error : typeName(error);
}

/** The record key is a digest: it links lines without identifying a caller. */
function lineOf(event: IdempotencyEvent): string {
  const { type, operation = '', recordKey = '' } = event;
  const errorType = 'errorType' in event ? event.errorType : undefined;
  const why = errorType === undefined ? '' : ` (${errorType})`;
  return `${type} in ${operation}, record ${recordKey}${why}${remedyOf(event)}`;
}

/** What a store says that no retry cures. It names options, tables and servers only. */
function remedyOf(event: IdempotencyEvent): string {
  const error = 'error' in event ? event.error : undefined;
  return hasCode(error, 'idempotency_store_misconfigured') ? `: ${asError(error).message}` : '';
}

/** Minimum milliseconds between two lines of a warning; each line counts the suppressed ones. */
const PAUSE_MS = 10_000;

class ThrottledWarning {
  private warnedAt = -Infinity;
  private suppressed = 0;

  constructor(private readonly logger: LoggerService) {}

  warn(message: string): void {
    const now = performance.now();
    if (now - this.warnedAt < PAUSE_MS) {
      this.suppressed += 1;
      return;
    }
    const others =
      this.suppressed === 0 ? '' : ` (and ${String(this.suppressed)} more since the last line)`;
    this.warnedAt = now;
    this.suppressed = 0;
    this.logger.warn(`${message}${others}`);
  }
}
