import type { ExecutionContext } from '@nestjs/common';
import { checkChoice, checkInteger, throwOptionError } from '../../core/util/option-checks.js';

/** What becomes of a message whose handling has failed: it comes again, or the broker puts it aside. */
export type FailureAction = 'requeue' | 'dead-letter';

/** How message handlers (`@MessagePattern`, `@EventPattern`) are protected. All durations in milliseconds. */
export interface MessageOptions {
  /**
   * Who consumes: the name of the queue or of the consumer group, part of every key's scope, so that an event which two
   * consumers receive is handled by both. Required wherever `@Idempotent()` stands on a message handler, for a
   * transport does not tell its handlers which queue a message came from.
   */
  readonly consumer?: string;
  /**
   * What RabbitMQ is told of an event whose handler failed, or that can never be handled (no key, the key of another
   * message): `'requeue'`, it comes again, at once the first time and after `redeliveryDelayMs` from then on; or
   * `'dead-letter'`, which without a dead-letter exchange discards it.
   * @defaultValue 'requeue'
   */
  readonly onFailure?:
    FailureAction | ((error: unknown, context: ExecutionContext) => FailureAction);
  /**
   * How long an event that has failed before is kept before RabbitMQ gets it back, so that it does not go round in
   * circles. 0 to 600 000.
   * @defaultValue 1_000
   */
  readonly redeliveryDelayMs?: number;
  /**
   * How long an event is kept, unacknowledged, that cannot be handled yet: its store is away, or another consumer is at
   * it (`whenInProgress: 'wait'`). Then the broker gets it back. Keep it below RabbitMQ's `consumer_timeout`, half an
   * hour by default. 1 000 to 86 400 000.
   * @defaultValue 600_000
   */
  readonly maxPauseMs?: number;
}

/** {@link MessageOptions} with every default filled in; `consumer` has none. */
export type ResolvedMessageOptions = Required<Omit<MessageOptions, 'consumer'>> &
  Pick<MessageOptions, 'consumer'>;

/** The defaults of {@link MessageOptions}. */
export const MESSAGE_DEFAULTS: ResolvedMessageOptions = Object.freeze({
  onFailure: 'requeue',
  redeliveryDelayMs: 1_000,
  maxPauseMs: 600_000,
});

/** @throws {@link IdempotencyOptionsError} naming option, range and value. */
export function checkMessageOptions(options: ResolvedMessageOptions): void {
  const { consumer } = options;
  if (consumer !== undefined && (typeof consumer !== 'string' || consumer === '')) {
    throwOptionError('consumer', 'a text that is not empty', consumer);
  }
  checkChoice('onFailure', options.onFailure, ['requeue', 'dead-letter'], 'orFunction');
  checkInteger('redeliveryDelayMs', options.redeliveryDelayMs, 0, 600_000);
  checkInteger('maxPauseMs', options.maxPauseMs, 1_000, 86_400_000);
}
