import type { Clock } from '../../../core/util/clock.js';
import { SymbolSlot } from '../../../core/util/symbol-slot.js';
import { jittered } from '../../../core/util/time.js';
import type { RabbitMqMessage, RpcSource } from '../source/rpc-context.js';
import { AckInterceptor, type RabbitMqDelivery } from './rabbitmq-delivery.js';

/** One delivery of a message by its broker. */
export interface Delivery {
  /** No client waits for a reply: the message may be paused, and its ack depends on its outcome. */
  readonly isEvent: boolean;
  /** Of Kafka: keeps the consumer in its group during a pause. */
  readonly heartbeat?: () => Promise<void>;
  /** Of RabbitMQ, alone in redelivering what is not acknowledged. */
  readonly rabbitMq?: RabbitMqDelivery;
}

const events = new SymbolSlot<true>('event');

/** Notes that Nest handles a message as an event: it sends no reply, whatever the message's properties. */
export function markEvent(message: RabbitMqMessage): void {
  events.set(message, true);
}

/** Nest's Kafka client sets both headers on a request. */
const KAFKA_REPLY_HEADERS = ['kafka_replyTopic', 'kafka_correlationId'];

/** @param isEventHandler - by its decorator, where the message itself does not say it. */
export function deliveryOf(
  source: RpcSource,
  operation: string,
  isEventHandler: boolean,
): Delivery {
  switch (source.transport) {
    case 'rabbitmq': {
      const { message, channel } = source;
      const { replyTo, correlationId } = message.properties;
      const isAwaited = replyTo !== undefined && correlationId !== undefined;
      return {
        isEvent: isEventHandler || !isAwaited || events.get(message) === true,
        rabbitMq: AckInterceptor.of(channel).deliveryOf(message, operation),
      };
    }
    case 'kafka': {
      const { message, heartbeat } = source;
      const isAwaited = KAFKA_REPLY_HEADERS.every((name) => message.headers?.[name] !== undefined);
      return { isEvent: isEventHandler || !isAwaited, heartbeat };
    }
    default:
      return { isEvent: isEventHandler };
  }
}

/** The time between two heartbeats during a pause. */
const HEARTBEAT_MS = 1_000;

/** Keeps a message unacknowledged for about `ms` milliseconds. @returns `false` if the broker has revoked it. */
export async function pauseDelivery(
  { heartbeat, rabbitMq }: Delivery,
  ms: number,
  clock: Clock,
): Promise<boolean> {
  const revoked = rabbitMq?.revoked;
  const until = clock.now() + jittered(ms, clock);
  for (;;) {
    if (revoked?.aborted === true) return false;
    const leftMs = until - clock.now();
    if (leftMs <= 0) return true;
    await pause(Math.min(leftMs, HEARTBEAT_MS), revoked, clock);
    await heartbeat?.();
  }
}

/** Ends early when the broker revokes the message. */
function pause(ms: number, revoked: AbortSignal | undefined, clock: Clock): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clock.clearTimeout(timer);
      revoked?.removeEventListener('abort', end);
      resolve();
    };
    const timer = clock.setTimeout(end, ms, undefined);
    revoked?.addEventListener('abort', end);
  });
}
