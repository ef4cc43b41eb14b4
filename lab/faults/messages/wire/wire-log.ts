import type { AckMethod, Reported } from './saying.js';

/** One delivery of a message, as the broker sent it. */
export interface WireDelivery {
  /** The message's id; copies of a message have the same. */
  readonly key: string;
  /** The copy of the message, by its correlation id. */
  readonly copy: string;
  /** The process that it was sent to. */
  readonly consumer: string;
  readonly isRedelivered: boolean;
  /** Milliseconds since the epoch. */
  readonly at: number;
  /** `returned`: its channel ended before an acknowledgement. */
  readonly end: Reported | 'returned';
  /** Absent where it was returned. */
  readonly method?: AckMethod;
  readonly endedAt: number;
}

/** The end of a channel that something had been delivered on. */
export interface WireClose {
  readonly consumer: string;
  /** Who ended it; `none`: its connection broke. */
  readonly by: 'consumer' | 'broker' | 'none';
  /** Absent without a stated reason. */
  readonly reason?: string;
  /** How many messages of the consumer were unacknowledged. */
  returned: number;
  readonly at: number;
}

/** What went over the wire between a broker and its consumers. */
export class WireLog {
  readonly deliveries: WireDelivery[] = [];
  readonly closes: WireClose[] = [];
  /** How many messages have been sent to consumers so far. */
  delivered = 0;
  /** How many of them are with the consumers and unacknowledged. */
  unacknowledged = 0;
}
