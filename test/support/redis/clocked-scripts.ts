import type { Redis } from 'ioredis';
import { withClock } from '../clocks/injected-clock.js';
import { loadScripts } from '../internals/stores/redis/scripts.js';

// A list of seconds and microseconds, as TIME returns.
const CLOCK_KEY = 'clock-of-the-scripts';

/** Far ahead of any real clock: Redis itself expires nothing while a test steps that of the scripts. */
export const START_MS = 2_500_000_000_000;

/** The shipped scripts, which read the time that {@link setClock} has set. */
export const clockedScripts = loadScripts((text) =>
  withClock(text, `redis.call('LRANGE', '${CLOCK_KEY}', 0, 1)`),
);

export async function setClock(client: Redis, us: number): Promise<void> {
  const time = [Math.floor(us / 1_000_000), us % 1_000_000];
  await client
    .multi()
    .del(CLOCK_KEY)
    .rpush(CLOCK_KEY, ...time)
    .exec();
}
