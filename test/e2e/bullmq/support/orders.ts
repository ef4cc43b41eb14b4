import { randomUUID } from 'node:crypto';
import { BullModule, Processor, WorkerHost } from '@nestjs/bullmq';
import type { Type } from '@nestjs/common';
import { Queue, QueueEvents, type Job, type JobsOptions, type WorkerOptions } from 'bullmq';
import {
  Idempotent,
  type IdempotencyModuleOptions,
  type IdempotentMethodOptions,
} from 'nestjs-idempotency';
import { delayJob } from 'nestjs-idempotency/bullmq';
import { callingApp, type CallingApp } from '../../../support/nest/calling-app.js';
import { until } from '../../../support/waiting/until.js';

export interface Order {
  readonly id: string;
  readonly amount?: number;
}

export type OrderJob = Job<Order, unknown>;

type Options = Partial<IdempotentMethodOptions<[job: OrderJob]>>;

/** A new queue and the applications that process it. */
export class Orders {
  readonly name = `orders-${randomUUID()}`;
  private readonly queue: Queue;
  private readonly finished: QueueEvents;
  private readonly apps: CallingApp[] = [];

  constructor(private readonly connection: { host: string; port: number }) {
    this.queue = new Queue(this.name, { connection });
    this.finished = new QueueEvents(this.name, { connection });
  }

  async add(order: Order, options: JobsOptions = {}): Promise<OrderJob> {
    await this.finished.waitUntilReady();
    return (await this.queue.add('place', order, options)) as OrderJob;
  }

  /** The value with which a job completes. */
  async valueOf(job: OrderJob): Promise<unknown> {
    return job.waitUntilFinished(this.finished);
  }

  /** Waits until a job is in this state, and reads it. */
  async until(state: 'delayed' | 'failed' | 'completed', { id }: OrderJob): Promise<OrderJob> {
    await until(async () => (await this.queue.getJobState(id!)) === state, 20_000);
    return (await this.queue.getJob(id!)) as OrderJob;
  }

  /** Starts an application that processes the jobs. */
  async handle(
    process: (job: OrderJob) => unknown,
    module: IdempotencyModuleOptions,
    options: Options = {},
    worker: Partial<WorkerOptions> = {},
  ): Promise<CallingApp> {
    const app = await callingApp(
      {
        imports: [
          BullModule.forRoot({ connection: this.connection }),
          BullModule.registerQueue({ name: this.name }),
        ],
        providers: [processor(this.name, process, options, { concurrency: 5, ...worker })],
      },
      module,
    );
    this.apps.push(app);
    return app;
  }

  async close(): Promise<void> {
    await Promise.all(this.apps.map(({ nest }) => nest.close()));
    await Promise.all([this.queue.close(), this.finished.close()]);
  }
}

function processor(
  queue: string,
  process: (job: OrderJob) => unknown,
  options: Options,
  worker: Partial<WorkerOptions>,
): Type {
  @Processor(queue, worker)
  class OrdersProcessor extends WorkerHost {
    @Idempotent({
      operation: 'orders.place',
      key: ({ data }: OrderJob) => data.id,
      payload: ({ data }) => data,
      duplicates: { retryAfter: 250 },
      onRejected: delayJob,
      ...options,
    })
    async process(job: OrderJob, _token?: string): Promise<unknown> {
      return process(job);
    }
  }
  return OrdersProcessor;
}
