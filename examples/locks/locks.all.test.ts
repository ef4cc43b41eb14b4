import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { TalkingProcess } from '../../test/support/processes/talking-process.js';
import { useRedis, useRedisClient } from '../../test/support/redis/use-redis.js';
import { until } from '../../test/support/waiting/until.js';

const redis = useRedis();
const client = useRedisClient(redis);
let processes: TalkingProcess<object>[] = [];

beforeEach(async () => {
  await client.flushall();
});
afterEach(async () => {
  await Promise.all(processes.map((each) => each.kill()));
  processes = [];
});

async function startTwo(job: string) {
  const script = new URL('locks.process.ts', import.meta.url);
  processes = [1, 2].map(() => new TalkingProcess(script, { url: redis.url, job }));
  for (const each of processes) expect(await each.next()).toEqual({ ready: job });
  return processes as [TalkingProcess<object>, TalkingProcess<object>];
}

const effects = (job: string) => client.llen(`effects:${job}`);
const openGate = () => client.set('gate', 'open');

async function tick(...those: TalkingProcess<object>[]): Promise<void> {
  for (const each of those) each.goOn();
  for (const each of those) expect(Object.keys(await each.next())).toEqual(['ticked']);
}

/** Its tick is in the middle of the work. */
async function begin(first: TalkingProcess<object>, job: string): Promise<void> {
  first.goOn();
  await until(async () => (await effects(job)) === 1, 60_000);
}

describe('A tick with a lock, in two processes,', () => {
  const job = 'countStock';

  it('is skipped while the other one runs, and the next tick runs again', async () => {
    const [one, other] = await startTwo(job);
    await begin(one, job);
    await tick(other);
    expect(await effects(job)).toBe(1);
    await openGate();
    await one.next();
    await tick(other);
    expect(await effects(job)).toBe(2);
  }, 120_000);

  it('is not made up for if the process dies that has the lock', async () => {
    const [one, other] = await startTwo(job);
    await begin(one, job);
    await one.kill();
    await openGate();
    await tick(other);
    expect(await effects(job)).toBe(1);
  }, 120_000);
});

describe('A tick with a key, in two processes,', () => {
  const job = 'sendInvoices';

  it('runs once in its period, however often it comes', async () => {
    const both = await startTwo(job);
    await openGate();
    await tick(...both);
    await tick(...both);
    expect(await effects(job)).toBe(1);
  }, 120_000);

  it('is taken over by the one that waits if the process dies that runs it', async () => {
    const [one, other] = await startTwo(job);
    await begin(one, job);
    other.goOn();
    await one.kill();
    await openGate();
    await other.next();
    expect(await effects(job)).toBe(2);
    await tick(other);
    expect(await effects(job)).toBe(2);
  }, 120_000);
});
