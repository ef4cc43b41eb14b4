import type { Delivery } from './delivery.js';

/** What keeps a consumer in its group while it holds a message: Kafka's. */
export interface Heartbeat {
  readonly heartbeat: () => Promise<void>;
  /** How long the group can do without. */
  readonly patienceMs: number;
}

/** A delivery of a transport that expects no word of its end: Redis, NATS, MQTT, TCP, and Kafka, which counts offsets. */
export class UnacknowledgedDelivery implements Delivery {
  readonly isReturned = false;
  readonly isRedelivered = false;
  readonly gone = undefined;
  readonly wish = undefined;
  readonly isHandedBack = false;
  isRunning = false;
  isAbandoned = (): boolean => false;

  constructor(
    readonly isEvent: boolean,
    private readonly pulse?: Heartbeat,
  ) {}

  get patienceMs(): number | undefined {
    return this.pulse?.patienceMs;
  }

  async keepAlive(): Promise<void> {
    await this.pulse?.heartbeat();
  }

  whenWished(): void {
    // There is nothing to be wished for.
  }

  tell(): void {
    // There is nobody to be told.
  }
}
