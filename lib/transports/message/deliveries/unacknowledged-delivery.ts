import type { KafkaMessage, RpcSource } from '../source/rpc-context.js';
import type { Delivery } from './delivery.js';
import { RabbitMqDelivery } from './rabbitmq-delivery.js';

/** What keeps a consumer in its group while it holds a message: Kafka's. */
export interface Heartbeat {
  readonly heartbeat: () => Promise<void>;
  /** How long the group can do without. */
  readonly maxUnacknowledgedMs: number;
}

/** A delivery of a transport that expects no word of its end: Redis, NATS, MQTT, TCP, and Kafka, which counts offsets. */
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
    // There is nothing to be wished for.
  }

  acknowledge(): void {
    // There is nobody to be told.
  }
}

/** The headers by which Nest's Kafka client says where it waits for the answer, both of them. */
const KAFKA_REPLY_HEADERS = ['kafka_replyTopic', 'kafka_correlationId'];

/** How long a Kafka message waits without a heartbeat: its group takes a consumer for dead after half a minute. */
const KAFKA_MAX_UNACKNOWLEDGED_MS = 3_000;

const rabbitMqDeliveries = new WeakMap<object, RabbitMqDelivery>();

/**
 * The delivery that a handler has been called for; one for all calls for one message, which an interceptor may repeat.
 *
 * @param isEventHandler - what its decorator says, where the message does not say it itself.
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
