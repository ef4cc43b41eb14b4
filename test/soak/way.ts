import type { EventEmitter } from 'node:events';
import type { INestApplicationContext } from '@nestjs/common';
import type { IdempotencyStore } from 'nestjs-idempotency';
import type { Order } from './operations.js';

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
