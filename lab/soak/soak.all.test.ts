import { describe, expect, it } from '@jest/globals';
import { growthsIn } from '../measure/growth/reading.js';
import { startRabbitMq } from '../../test/support/rabbitmq/rabbitmq-server.js';
import { startRedis } from '../../test/support/redis/redis-server.js';
import { useServer } from '../../test/support/servers/use-server.js';
import { WAYS, type SoakSetup, type WayName } from './setup.js';
import { soak } from './soak.js';

/** `SOAK_REQUESTS=2000` for a short run. */
const REQUESTS = Number(process.env.SOAK_REQUESTS ?? 10_000);
/** What five thousand requests exceed that leave a hundred bytes each. */
const HEAP_MAY_GROW_BYTES = 500_000;
const TIMEOUT_MS = 300_000;

/** Enough to detect a kilobyte of each request. */
const REQUESTS_THAT_LEAK = 2_000;

/** How requests end: each of these has to have happened, or the run proves nothing about it. */
const ENDS = [
  ...['completed', 'released', 'replayed', 'waited', 'mismatch', 'in_progress', 'unprotected'],
  ...['superseded', 'outcome_diverged', 'save_delayed', 'store_unavailable', 'outcome_unknown'],
];

const redis = useServer(startRedis);
const broker = useServer(startRabbitMq);

const setupOf = (way: WayName, leaks: SoakSetup['leaks'] = []): SoakSetup => ({
  ...{ way, leaks, redisUrl: redis.url },
  rabbitMqPort: broker.port,
});

describe.each(WAYS)('requests by way of %s', (way) => {
  it(
    'leave no listener, timer, attempt, waiter or memory behind, and their attempts end once, however they end',
    async () => {
      const { readings, wrongEnds } = await soak(setupOf(way), REQUESTS);
      expect(wrongEnds).toEqual([]);
      expect(growthsIn(readings, HEAP_MAY_GROW_BYTES)).toEqual([]);
      for (const name of ENDS) expect(readings.at(-1)!.ends[name] ?? 0).toBeGreaterThan(0);
    },
    TIMEOUT_MS,
  );

  it(
    'that leave something behind, or whose attempts do not end once, are detected',
    async () => {
      const setup = setupOf(way, ['heap', 'listener', 'timer']);
      const { readings, wrongEnds } = await soak(
        { ...setup, misreportsEnds: true },
        REQUESTS_THAT_LEAK,
      );
      const growths = growthsIn(readings, HEAP_MAY_GROW_BYTES);
      for (const name of ['heap', 'listeners of the process', 'timers']) {
        expect(growths).toContainEqual(expect.stringMatching(`^${name}: `));
      }
      for (const wrong of ['not ended', 'of no running attempt']) {
        expect(wrongEnds).toContainEqual(expect.stringMatching(`^${wrong}: `));
      }
    },
    TIMEOUT_MS,
  );
});
