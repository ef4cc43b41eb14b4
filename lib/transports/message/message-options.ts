import type { ExecutionContext } from '@nestjs/common';
import { checkChoice, checkInteger, throwOptionError } from '../../core/util/option-checks.js';

/** Whether a message whose handling failed is requeued or dead-lettered. */
export type FailureAction = 'requeue' | 'dead-letter';

/** How message handlers (`@MessagePattern`, `@EventPattern`) are protected. All durations in milliseconds. */
export interface MessageOptions {
  /**
   * The name of the queue or of the consumer group. It is part of every key's scope, so that two consumers of an event
   * both handle it. Required for message handlers: transports do not pass the queue's name to them.
   */
  readonly consumer?: string;
  /**
   * How a RabbitMQ event is acknowledged whose handler failed, or that can never be handled (no key, the key of another
   * message). `'requeue'`: at once the first time, after `redeliveryDelayMs` from then on. `'dead-letter'`: discards it
   * if the queue has no dead-letter exchange.
   * @defaultValue 'requeue'
   */
  readonly onFailure?:
    FailureAction | ((error: unknown, context: ExecutionContext) => FailureAction);
  /** The delay before an event that fails again is requeued, against a tight loop. 0 to 600 000. @defaultValue 1_000 */
  readonly redeliveryDelayMs?: number;
  /**
   * How long an event is kept unacknowledged while its store is unavailable or another consumer handles it
   * (`whenInProgress: 'wait'`); then it is requeued. Keep it below RabbitMQ's `consumer_timeout`, half an hour by
   * default. 1 000 to 86 400 000.
   * @defaultValue 600_000
   */
  readonly maxPauseMs?: number;
}

/** {@link MessageOptions} with every default filled in; `consumer` has none. */
export type ResolvedMessageOptions = Required<Omit<MessageOptions, 'consumer'>> &
  Pick<MessageOptions, 'consumer'>;

export const MESSAGE_DEFAULTS: ResolvedMessageOptions = Object.freeze({
  onFailure: 'requeue',
  redeliveryDelayMs: 1_000,
  maxPauseMs: 600_000,
});

/** @throws {@link IdempotencyOptionsError} naming option, range and value. */
export function checkMessageOptions(options: ResolvedMessageOptions): void {
  const { consumer } = options;
  if (consumer !== undefined && (typeof consumer !== 'string' || consumer === '')) {
    throwOptionError('consumer', 'a non-empty string', consumer);
  }
  checkChoice('onFailure', options.onFailure, ['requeue', 'dead-letter'], 'orFunction');
  checkInteger('redeliveryDelayMs', options.redeliveryDelayMs, 0, 600_000);
  checkInteger('maxPauseMs', options.maxPauseMs, 1_000, 86_400_000);
}
