import type { UsedRabbitMq } from '../../test/support/rabbitmq/use-rabbitmq.js';
import type { Entry } from './trace.js';

export const TRIPS = ['first POST', 'replay', 'message', 'call'] as const;
export type TripName = (typeof TRIPS)[number];

export interface Trip {
  /** One request, to its response; one message, until the broker has its acknowledgement. */
  readonly go: () => Promise<void>;
  /** How often the handler has run so far. */
  readonly executions: () => number;
}

export interface Setup {
  readonly trip: TripName;
  readonly redisUrl: string;
  readonly broker: UsedRabbitMq;
}

/** What ran from the end of the previous step to the end of this one. */
export interface Step {
  readonly entries: readonly Entry[];
  readonly executions: number;
}
