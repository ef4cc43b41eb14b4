import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect } from '@jest/globals';
import { Queue, QueueEvents, type Job } from 'bullmq';
import { until } from '../../support/waiting/until.js';
import { startRedis, type RedisServer } from '../../support/redis/redis-server.js';
import { itWithClock, ServerClock } from '../../support/clocks/server-clock.js';
import { START_HOOK_MS } from '../../support/servers/start-server.js';
import { TalkingProcess } from '../../support/processes/talking-process.js';
import { LOCK_MS, type HeldOrder, type WorkerMessage } from './support/worker-settings.js';

type Worker = TalkingProcess<WorkerMessage>;

const SCRIPT = new URL('support/worker.process.ts', import.meta.url);

/** Longer than a killed worker's lock on its job, so that the heir also finds the key in progress. */
const LEASE_MS = LOCK_MS + 30_000;
const OTHERS = 20;

let clock: ServerClock;
let redis: RedisServer;
let queue: Queue<HeldOrder>;
let finished: QueueEvents;
let workers: Worker[] = [];

const isReady = (messages: readonly WorkerMessage[]) =>
  messages.some(({ said }) => said === 'ready');

/** The executions that a worker has begun, of one order or of all. */
function begunBy({ messages }: Worker, id?: string) {
  const begun = messages.filter((message) => message.said === 'begun');
  return id === undefined ? begun : begun.filter((message) => message.id === id);
}

beforeAll(async () => {
  clock = new ServerClock();
  redis = await startRedis({ env: clock.env });
  const connection = { host: '127.0.0.1', port: redis.port };
  queue = new Queue('orders', { connection });
  // Each job that is waited for adds a listener.
  queue.setMaxListeners(0);
  finished = new QueueEvents('orders', { connection });
  await finished.waitUntilReady();
}, START_HOOK_MS);
afterAll(async () => {
  await Promise.all(workers.map((worker) => worker.kill()));
  await Promise.all([queue.close(), finished.close()]);
  await redis.stop();
  clock.remove();
});

itWithClock(
  'runs only the jobs of a killed worker again, as takeovers on another worker',
  async () => {
    const settings = { redisPort: redis.port, queue: 'orders', leaseMs: LEASE_MS };
    const [victim, heir] = ['victim', 'heir'].map(
      (name) => new TalkingProcess<WorkerMessage>(SCRIPT, { ...settings, name }),
    ) as [Worker, Worker];
    workers = [victim, heir];
    await victim.until(isReady);
    await heir.until(isReady);

    // Either worker may take a job; the victim never finishes those that it takes.
    const held: Job<HeldOrder>[] = [];
    await until(async () => {
      held.push(await queue.add('place', { id: randomUUID(), heldBy: 'victim' }, { attempts: 1 }));
      return begunBy(victim).length > 0;
    });
    const others = await Promise.all(
      Array.from({ length: OTHERS }, () => queue.add('place', { id: randomUUID() })),
    );
    await Promise.all(others.map((job) => job.waitUntilFinished(finished)));
    const lost = begunBy(victim).filter(({ id }) => held.some(({ data }) => data.id === id));
    await victim.kill();
    clock.pass(LOCK_MS);
    await until(async () => (await queue.getDelayedCount()) > 0, 20_000);
    // The heir's own locks do not expire with it.
    clock.pass(LOCK_MS / 2);

    const values = await Promise.all(held.map((job) => job.waitUntilFinished(finished)));
    for (const [index, { data }] of held.entries()) {
      const isLost = lost.some(({ id }) => id === data.id);
      expect(values[index]).toEqual({ by: 'heir', attempt: isLost ? 2 : 1 });
      expect(begunBy(heir, data.id)).toEqual([
        { said: 'begun', id: data.id, attempt: isLost ? 2 : 1, isTakeover: isLost },
      ]);
    }
    for (const { data } of others) {
      const begun = [...begunBy(victim, data.id), ...begunBy(heir, data.id)];
      expect(begun).toEqual([{ said: 'begun', id: data.id, attempt: 1, isTakeover: false }]);
    }
  },
  60_000,
);
