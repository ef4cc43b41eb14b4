import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { Queue, QueueEvents, Worker, type Job } from 'bullmq-5';
import { IdempotencyService, OperationRejectedError } from 'nestjs-idempotency';
import { delayJob } from 'nestjs-idempotency/bullmq';
import { until } from '../../support/waiting/until.js';
import { Gate } from '../../support/waiting/gate.js';
import { Tally } from '../../support/waiting/tally.js';
import { useRedis } from '../../support/redis/use-redis.js';
import { callingApp, type CallingApp } from '../../support/nest/calling-app.js';

const redis = useRedis();
let app: CallingApp;
let queue: Queue;
let finished: QueueEvents;
let worker: Worker;
const gate = new Gate();
const executed = new Tally();

beforeAll(async () => {
  app = await callingApp({}, { duplicates: { retryAfter: 250 } });
  const service = app.nest.get(IdempotencyService, { strict: false });
  const connection = { host: '127.0.0.1', port: redis.port };
  queue = new Queue('orders', { connection });
  finished = new QueueEvents('orders', { connection });
  await finished.waitUntilReady();
  // A plain worker, without a Nest processor.
  worker = new Worker(
    'orders',
    async (job: Job<{ id: string; amount: number }>, token) => {
      const call = { operation: 'orders.place', key: job.data.id, scope: 'shop' };
      try {
        return await service.run({ ...call, payload: job.data }, async () => {
          executed.add();
          await gate.pass();
          return { placed: job.data.id };
        });
      } catch (error) {
        if (error instanceof OperationRejectedError) return delayJob(error, job, token);
        throw error;
      }
    },
    { connection, concurrency: 5 },
  );
});
afterAll(async () => {
  gate.open();
  await worker.close();
  await Promise.all([queue.close(), finished.close()]);
  await app.nest.close();
});

it('a worker of BullMQ 5 delays a job in progress, and fails a reused key without further attempts', async () => {
  const id = randomUUID();
  gate.close();
  const first = await queue.add('place', { id, amount: 1 }, { attempts: 1 });
  await executed.reached(1);
  const second = await queue.add('place', { id, amount: 1 }, { attempts: 1 });
  await until(async () => (await second.getState()) === 'delayed');
  gate.open();
  const values = await Promise.all([first, second].map((job) => job.waitUntilFinished(finished)));
  expect(values).toEqual([{ placed: id }, { placed: id }]);
  const other = await queue.add('place', { id, amount: 2 }, { attempts: 5 });
  await expect(other.waitUntilFinished(finished)).rejects.toThrow('[idempotency_key_reused]');
  const failed = (await queue.getJob(other.id!))!;
  expect(failed.attemptsMade).toBe(1);
  expect(executed.count).toBe(1);
});
