/** How the broker settles a message; `'dead-letter'` discards it without a dead-letter exchange. */
export type AckAction = 'accept' | 'requeue' | 'dead-letter';

/** One delivery of a message by its broker. */
export interface Delivery {
  /** No client waits for a reply: the message may be paused, and its ack depends on its outcome. */
  readonly isEvent: boolean;
  /** The broker redelivers a message that is never acknowledged, as at shutdown. */
  readonly isReturned: boolean;
  /** The message was delivered before. */
  readonly isRedelivered: boolean;
  /** Aborted when the broker revokes the delivery: another consumer may have the message then. */
  readonly revoked: AbortSignal | undefined;
  /** The ack that the application has requested. */
  readonly requestedAck: AckAction | undefined;
  /** The handler itself has requeued or dead-lettered the message: its return is not a success. */
  readonly isReturnedByHandler: boolean;
  /** The handler is running: acks meanwhile count as the handler's, wherever they come from. */
  isRunning: boolean;
  /** Whether the handler's result has no subscriber any more (an outer timeout): acks do not count as the handler's. */
  isAbandoned: () => boolean;
  /** The longest pause without {@link keepAlive}; `undefined`: no limit. */
  readonly maxUnacknowledgedMs: number | undefined;
  /** Keeps the broker from removing the consumer during a pause. */
  keepAlive(): Promise<void>;
  /** Calls `listener` when the application requests an ack. */
  onRequestedAck(listener: () => void): void;
  /** Acknowledges the message; later calls do nothing. */
  acknowledge(action: AckAction): void;
}
