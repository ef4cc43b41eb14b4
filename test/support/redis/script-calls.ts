import type { Redis } from 'ioredis';

/** How many scripts clients have sent so far: each step of the protocol is one. */
export async function scriptCalls(observer: Redis): Promise<number> {
  const statistics = await observer.info('commandstats');
  const [, calls = '0'] = /cmdstat_evalsha:calls=(\d+)/.exec(statistics) ?? [];
  return Number(calls);
}
