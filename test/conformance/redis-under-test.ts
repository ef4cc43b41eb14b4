import { afterAll } from '@jest/globals';
import { Redis } from 'ioredis';
import { RedisIdempotencyStore } from 'nestjs-idempotency/redis';
import type { StoreUnderTest } from 'nestjs-idempotency/testing/store';
import { clockedScripts, setClock, START_MS } from '../support/redis/clocked-scripts.js';
import { useRedis } from '../support/redis/use-redis.js';

const redis = useRedis();
let opened: Redis | undefined;
afterAll(() => opened?.disconnect());

export const redisUnderTest: StoreUnderTest = {
  name: 'RedisIdempotencyStore',
  create: async () => {
    const client = openClient();
    let now = START_MS;
    const set = async (ms: number) => {
      now = ms;
      await setClock(client, now * 1_000 + 517);
    };
    await set(now);
    const store = new RedisIdempotencyStore({ client, scripts: clockedScripts });
    const clock = { now: () => now, step: (ms: number) => set(now + ms) };
    return { store, clock, dispose: () => store.close() };
  },
};

/** Runs the shipped scripts: for the cases that do not need a driven clock. */
export const redisOnItsOwnClock: StoreUnderTest = {
  name: "RedisIdempotencyStore on the server's own clock",
  hasSteppableClock: false,
  create: async () => {
    const client = openClient();
    const store = new RedisIdempotencyStore({ client });
    return { store, dispose: () => store.close() };
  },
};

function openClient(): Redis {
  return (opened ??= new Redis(redis.url));
}
