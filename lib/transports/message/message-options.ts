import type { ExecutionContext } from '@nestjs/common';
import type { Duration, InMilliseconds } from '../../core/options/duration.js';
import { choice, duration, isText, of, type Group } from '../../core/options/option-schema.js';
import { OF_HANDLERS } from '../common/request-options.js';

/** Whether a message whose handling failed is requeued or dead-lettered. */
export type FailureAction = 'requeue' | 'dead-letter';

/** How message handlers (`@MessagePattern`, `@EventPattern`) are protected. */
export interface MessageOptions {
  /**
   * The name of the queue or of the consumer group. It is part of every key's scope, so that two consumers of an event
   * both handle it. Required for message handlers: transports do not pass the queue's name to them.
   * @defaultValue none
   */
  readonly consumer?: string;
  /**
   * How a RabbitMQ event is acknowledged whose handler failed, or that can never be handled (no key, the key of another
   * message). `'requeue'`: at once the first time, after `redeliveryDelay` from then on. `'dead-letter'`: discards it
   * if the queue has no dead-letter exchange.
   * @defaultValue 'requeue'
   */
  readonly onFailure?:
    FailureAction | ((error: unknown, context: ExecutionContext) => FailureAction);
  /**
   * The delay before an event that fails again is requeued, against a tight loop.
   * @defaultValue '1s', from '0ms' to '10m'
   */
  readonly redeliveryDelay?: Duration;
  /**
   * How long an event is kept unacknowledged while its store is unavailable or another consumer handles it
   * (`duplicates: 'wait'`); then it is requeued. Keep it below RabbitMQ's `consumer_timeout`, half an hour by
   * default.
   * @defaultValue '10m', from '1s' to '24h'
   */
  readonly maxPause?: Duration;
}

/** {@link MessageOptions} with every default filled in; `consumer` has none. */
export type ResolvedMessageOptions = InMilliseconds<Required<Omit<MessageOptions, 'consumer'>>> &
  Pick<MessageOptions, 'consumer'>;

export const MESSAGE: Group<MessageOptions, ResolvedMessageOptions> = {
  fields: {
    consumer: of('a non-empty string', isText, { defaultText: 'none' }),
    onFailure: choice(['requeue', 'dead-letter'], { default: 'requeue', orFunction: true }),
    redeliveryDelay: duration({ default: '1s', min: '0ms', max: '10m' }),
    maxPause: duration({ default: '10m', min: '1s', max: '24h' }),
  },
  places: OF_HANDLERS,
};
