import { useRedis } from '../../support/use-redis.js';
import { randomInt } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { Coverage } from './coverage.js';
import { loadInstrumentedScripts } from './instrumented-scripts.js';
import { MUTANTS } from './mutants.js';
import { runDifferential } from './run-differential.js';

/**
 * DIFFERENTIAL_SEED replays: the sequence of that number comes first.
 * DIFFERENTIAL_CALLS goes on until so many scripts were called.
 */
const seed = Number(process.env.DIFFERENTIAL_SEED ?? randomInt(2 ** 31));
const calls = Number(process.env.DIFFERENTIAL_CALLS ?? 0);
const SEQUENCES = 20_000;
const TIMES_EACH = 100;

const server = useRedis();
let redis: Redis;

beforeAll(async () => {
  redis = new Redis(server.url, { maxRetriesPerRequest: 0 });
});

afterAll(async () => {
  redis.disconnect();
});

describe('the scripts and the reference state machine', () => {
  it('reply alike and leave the same record, whatever comes in whatever order', async () => {
    const coverage = new Coverage();
    const scripts = await loadInstrumentedScripts(redis);
    const started = performance.now();
    const extent = { seed, sequences: SEQUENCES, calls, watch: coverage.watch };
    const result = await runDifferential(redis, scripts, extent);
    const seconds = (performance.now() - started) / 1000;
    if (calls > 0) {
      const rate = Math.round(result.calls / seconds);
      process.stdout.write(
        `seed ${seed}: ${result.sequences} sequences, ${result.calls} script calls, ${rate}/s\n${coverage.toString()}\n`,
      );
    }
    expect(result.failure).toBeUndefined();
    expect(result.sequences).toBeGreaterThanOrEqual(SEQUENCES);
    expect(coverage.missing(TIMES_EACH)).toEqual({});
  }, 600_000);
});

describe('the comparison notices a script in which', () => {
  it.each(MUTANTS)('$name', async ({ mutate }) => {
    const scripts = await loadInstrumentedScripts(redis, mutate);
    const { failure } = await runDifferential(redis, scripts, { seed, sequences: SEQUENCES });
    expect(failure).toContain('Script and reference differ');
  });
});
