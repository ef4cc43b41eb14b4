import type { INestMicroservice, Type } from '@nestjs/common';
import type { RmqOptions } from '@nestjs/microservices';
import {
  IdempotencyEvents,
  type IdempotencyEvent,
  type IdempotencyModuleOptions,
} from 'nestjs-idempotency';
import { startConsumer, type StartConsumerOptions } from './start-consumer.js';
import type { TestQueue } from './test-queue.js';

/** A consumer of a test, and the events that its library emitted. */
export interface Consumer {
  readonly app: INestMicroservice;
  readonly events: readonly IdempotencyEvent[];
}

/** The queues and consumers of one test. They are closed after it, consumers first. */
export class Consumers {
  private apps: INestMicroservice[] = [];
  private queues: TestQueue[] = [];

  async start(
    queue: TestQueue,
    controllers: Type | Type[],
    options: IdempotencyModuleOptions,
    more: Omit<StartConsumerOptions, 'controllers' | 'options'> & {
      readonly prefetch?: number;
      readonly noAck?: boolean;
      /** The connection to the broker, if it is not the direct one. */
      readonly connection?: Pick<NonNullable<RmqOptions['options']>, 'urls' | 'socketOptions'>;
    } = {},
  ): Promise<Consumer> {
    const { prefetch = 0, noAck = false, connection, ...rest } = more;
    const transport = queue.transport({ prefetchCount: prefetch, noAck, ...connection });
    const app = await startConsumer(transport, {
      controllers: [controllers].flat(),
      options,
      ...rest,
    });
    this.apps.push(app);
    const events: IdempotencyEvent[] = [];
    app.get(IdempotencyEvents).subscribe((event) => events.push(event), { replacesLog: true });
    return { app, events };
  }

  with(queue: TestQueue): TestQueue {
    this.queues.push(queue);
    return queue;
  }

  async close(): Promise<void> {
    await Promise.all(this.apps.map((app) => app.close()));
    await Promise.all(this.queues.map((queue) => queue.close()));
    this.apps = [];
    this.queues = [];
  }
}
