import type { EventEmitter } from 'node:events';
import type { INestApplicationContext } from '@nestjs/common';
import type { IdempotencyStore } from 'nestjs-idempotency';
import type { Order } from './operations.js';

/** One way in, with an application at its end. */
export interface Way {
  readonly nest: INestApplicationContext;
  /** Sends a request, and resolves when it has been answered, whatever the answer is. */
  send(order: Order): Promise<void>;
  /** Sends a request whose client leaves after so many milliseconds; one that cannot leave stays. */
  sendAndLeave(order: Order, afterMs: number): Promise<void>;
  /** Resolves when nothing is on its way any more. */
  settled?(): Promise<void>;
  /** Takes away, once, what connects the application with its clients or its broker. */
  disconnect?(): void;
  /** What lives for long, and is listened to. */
  emitters(): Readonly<Record<string, readonly EventEmitter[]>>;
}

export interface WaySettings {
  readonly store: IdempotencyStore;
  readonly rabbitMqPort?: number | undefined;
}
