import { afterAll } from '@jest/globals';
import { Redis } from 'ioredis';
import { RedisIdempotencyStore } from 'nestjs-idempotency/redis';
import type { StoreUnderTest } from 'nestjs-idempotency/testing/store';
import { loadScripts } from '../support/internals/stores/redis/scripts.js';
import { withClock } from '../support/clocks/injected-clock.js';
import { useRedis } from '../support/redis/use-redis.js';

// A list of seconds and microseconds, as TIME returns.
const CLOCK_KEY = 'clock-of-the-conformance-kit';
const scripts = loadScripts((text) =>
  withClock(text, `redis.call('LRANGE', '${CLOCK_KEY}', 0, 1)`),
);
// Far ahead of any real clock: Redis itself expires nothing while the kit steps this one.
const START_MS = 2_500_000_000_000;

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
      const time = [Math.floor(now / 1000), (now % 1000) * 1000 + 517];
      await client
        .multi()
        .del(CLOCK_KEY)
        .rpush(CLOCK_KEY, ...time)
        .exec();
    };
    await set(now);
    const store = new RedisIdempotencyStore({ client, scripts });
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
