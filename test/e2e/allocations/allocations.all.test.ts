import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { combinations } from '../../support/http/combinations.js';
import { useRedis } from '../../support/redis/use-redis.js';
import { AT_MOST, type Kind } from './at-most.js';
import type { Allocations } from './allocations.js';
import { CountedApp, minus, type Exchange } from './counted-app.js';

const redis = useRedis();

let keys = 0;
const newKey = () => `key-${(keys += 1)}`;

describe.each(combinations)('allocations on $platform with $store', ({ platform, store }) => {
  let app: CountedApp;
  let empty: Allocations;

  beforeAll(async () => {
    app = await CountedApp.start({ platform, store, redisUrl: redis.url });
    empty = usual(await app.count({ path: '/empty', key: newKey, replayed: false }));
  });
  afterAll(() => app.stop());

  const key = newKey();
  it.each<{ kind: Kind; exchange: Exchange }>([
    {
      kind: 'first request',
      exchange: { path: '/protected', key: newKey, replayed: false },
    },
    {
      kind: 'replay',
      exchange: { path: '/protected', key: () => key, replayed: true },
    },
  ])('each $kind creates the same small number of promises', async ({ kind, exchange }) => {
    if (exchange.replayed) await app.send({ ...exchange, replayed: false });
    const counts = await app.count(exchange);
    expect(new Set(counts.map(({ promises }) => promises)).size).toBe(1);
    const { promises, timers } = minus(usual(counts), empty);
    process.stdout.write(
      `${platform}, ${store}, ${kind}: ${promises} promises, ${timers} own timers\n`,
    );
    const atMost = AT_MOST[platform][store][kind];
    expect(promises).toBeLessThanOrEqual(atMost.promises);
    expect(timers).toBeLessThanOrEqual(atMost.timers);
  });
});

/** The median: a timer that many requests share is created by one of them. */
function usual(counts: readonly Allocations[]): Allocations {
  const middleOf = (numbers: readonly number[]) =>
    [...numbers].sort((one, other) => one - other)[numbers.length >> 1] ?? NaN;
  return {
    promises: middleOf(counts.map(({ promises }) => promises)),
    timers: middleOf(counts.map(({ timers }) => timers)),
  };
}
