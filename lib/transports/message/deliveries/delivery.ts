/** What is done with a message once it is known what became of it. */
export type AckAction =
  /** It is dealt with. */
  | 'accept'
  /** It is to come again. */
  | 'requeue'
  /** It is to be put aside. */
  | 'dead-letter';

/** One delivery of a message, and the broker's side of it. */
export interface Delivery {
  /** Nobody waits for an answer: what cannot be handled yet may be held, and the broker is told how it ended. */
  readonly isEvent: boolean;
  /** The broker delivers it again where it is never told of its end: whoever closes down need not say so. */
  readonly isReturned: boolean;
  /** It was delivered before. */
  readonly isRedelivered: boolean;
  /** Aborted once the broker has taken the message back: another consumer may have it by now. */
  readonly revoked: AbortSignal | undefined;
  /** What the application has asked of the broker by itself. */
  readonly requestedAck: AckAction | undefined;
  /** The handler itself has asked for the message again, or to put it aside: its return is no success. */
  readonly isReturnedByHandler: boolean;
  /** The handler is at it: what is said meanwhile is said for it, from wherever. */
  isRunning: boolean;
  /** Whether nobody listens to the handler any more (an outer timeout): what is said then is not said for it. */
  isAbandoned: () => boolean;
  /** How long it may be held without {@link keepAlive}; any time where it is `undefined`. */
  readonly maxUnacknowledgedMs: number | undefined;
  /** Keeps the broker from taking it for lost while it is held. */
  keepAlive(): Promise<void>;
  /** Calls `listener` when {@link requestedAck} is uttered. */
  onRequestedAck(listener: () => void): void;
  /** Tells the broker, once: what is said after that is not heard. */
  acknowledge(action: AckAction): void;
}
