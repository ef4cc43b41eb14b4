import type { Leak } from '../measure/growth/leaks.js';
import type { EventEmitter } from 'node:events';
import type { INestApplicationContext } from '@nestjs/common';
import type { IdempotencyStore } from 'nestjs-idempotency';
import type { Order } from './operations.js';

/** The transports of the operations. */
export const WAYS = [
  'express',
  'fastify',
  'rabbitmq',
  'call',
  'graphql',
  'socket.io',
  'ws',
] as const;

export type WayName = (typeof WAYS)[number];

/** The subject of the soak. */
export interface SoakSetup {
  readonly way: WayName;
  readonly redisUrl: string;
  readonly rabbitMqPort?: number | undefined;
  /** What every request leaves behind, so that the soak itself can be tested. */
  readonly leaks?: readonly Exclude<Leak, 'socket'>[];
  /** The end of some attempts is emitted twice, and that of others never, for the same reason. */
  readonly misreportsEnds?: boolean;
}

/** One transport, with an application at its end. */
export interface Way {
  readonly nest: INestApplicationContext;
  /** Sends a request, and resolves with the response, whatever it is. */
  send(order: Order): Promise<void>;
  /** Sends a request whose client leaves after this many milliseconds; one that cannot leave stays. */
  sendAndLeave(order: Order, afterMs: number): Promise<void>;
  /** Resolves when nothing is in transit any more. */
  settled?(): Promise<void>;
  /** Breaks, once, the connections of the application with its clients or its broker. */
  disconnect?(): void;
  /** Long-lived emitters with listeners. */
  emitters(): Readonly<Record<string, readonly EventEmitter[]>>;
}

export interface WaySettings {
  readonly store: IdempotencyStore;
  readonly rabbitMqPort?: number | undefined;
}
