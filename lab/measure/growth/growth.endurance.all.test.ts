import { expect, it } from '@jest/globals';
import { REQUESTS_OF_A_ROUND } from './client.js';
import { measureGrowth, type GrowthRun } from './measure-growth.js';
import { growthsIn } from './reading.js';

/** A short version of `npm run lab -- measure growth`. */
const REQUESTS_PER_CHUNK = 2_000;
/** An application that keeps half a kilobyte for each request exceeds this after 2,000 requests. */
const HEAP_MAY_GROW_BYTES = 1_000_000;

const TIMEOUT_MS = 120_000;

async function growthsOf(run: GrowthRun): Promise<string[]> {
  const { readings } = await measureGrowth(run);
  expect(readings).toHaveLength(run.chunks);
  return growthsIn(readings, HEAP_MAY_GROW_BYTES);
}

it.each(['express', 'fastify'] as const)(
  'thousands of requests on %s with Redis leave no listener, timer, socket or memory behind',
  async (platform) => {
    const run = { platform, store: 'redis', chunks: 3 } as const;
    expect(await growthsOf({ ...run, requestsPerChunk: REQUESTS_PER_CHUNK })).toEqual([]);
  },
  TIMEOUT_MS,
);

it(
  'detects a kilobyte that stays for each request',
  async () => {
    const run = { platform: 'fastify', store: 'memory', leaks: ['heap'], chunks: 2 } as const;
    const growths = await growthsOf({ ...run, requestsPerChunk: REQUESTS_PER_CHUNK });
    expect(growths).toEqual([expect.stringMatching(/^heap: \d+ B more/)]);
  },
  TIMEOUT_MS,
);

it(
  'detects a listener, a timer and a socket that stay for each request',
  async () => {
    const leaks = ['listener', 'timer', 'socket'] as const;
    const run = { platform: 'fastify', store: 'memory', leaks, chunks: 2 } as const;
    const growths = await growthsOf({ ...run, requestsPerChunk: 2 * REQUESTS_OF_A_ROUND });
    for (const name of ['listeners of the process', 'timers', 'sockets']) {
      expect(growths).toContainEqual(expect.stringMatching(`^${name}: \\d+ after \\d+$`));
    }
  },
  TIMEOUT_MS,
);
