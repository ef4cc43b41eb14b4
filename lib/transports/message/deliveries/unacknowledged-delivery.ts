import type { KafkaMessage, RpcSource } from '../source/rpc-context.js';
import type { Delivery } from './delivery.js';
import { RabbitMqDelivery } from './rabbitmq-delivery.js';

/** Keeps a Kafka consumer in its group while a message is paused. */
export interface Heartbeat {
  readonly heartbeat: () => Promise<void>;
  /** The longest time between two heartbeats. */
  readonly maxUnacknowledgedMs: number;
}

/** A delivery of a transport without acks: Redis, NATS, MQTT, TCP, and Kafka, which commits offsets. */
class UnacknowledgedDelivery implements Delivery {
  readonly isReturned = false;
  readonly isRedelivered = false;
  readonly revoked = undefined;
  readonly requestedAck = undefined;
  readonly isReturnedByHandler = false;
  isRunning = false;
  isAbandoned = (): boolean => false;

  constructor(
    readonly isEvent: boolean,
    private readonly pulse?: Heartbeat,
  ) {}

  get maxUnacknowledgedMs(): number | undefined {
    return this.pulse?.maxUnacknowledgedMs;
  }

  async keepAlive(): Promise<void> {
    await this.pulse?.heartbeat();
  }

  onRequestedAck(): void {
    // There are no acks to request.
  }

  acknowledge(): void {
    // There is nothing to acknowledge.
  }
}

/** Nest's Kafka client sets both headers on a request. */
const KAFKA_REPLY_HEADERS = ['kafka_replyTopic', 'kafka_correlationId'];

/** The longest time without a heartbeat: a group removes a consumer after 30 s, by default. */
const KAFKA_MAX_UNACKNOWLEDGED_MS = 3_000;

const rabbitMqDeliveries = new WeakMap<object, RabbitMqDelivery>();

/**
 * The delivery of a handler's message: one object for all calls, as an interceptor may retry the handler.
 * @param isEventHandler - by its decorator, where the message itself does not say it.
 */
export function deliveryOf(source: RpcSource, isEventHandler: boolean): Delivery {
  switch (source.transport) {
    case 'rabbitmq': {
      const known = rabbitMqDeliveries.get(source.message);
      if (known !== undefined) return known;
      const delivery = new RabbitMqDelivery(source.message, source.channel, isEventHandler);
      rabbitMqDeliveries.set(source.message, delivery);
      return delivery;
    }
    case 'kafka':
      return new UnacknowledgedDelivery(isEventHandler || !isAwaited(source.message), {
        heartbeat: source.heartbeat,
        maxUnacknowledgedMs: KAFKA_MAX_UNACKNOWLEDGED_MS,
      });
    default:
      return new UnacknowledgedDelivery(isEventHandler);
  }
}

function isAwaited({ headers }: KafkaMessage): boolean {
  return KAFKA_REPLY_HEADERS.every((name) => headers?.[name] !== undefined);
}
