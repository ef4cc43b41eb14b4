import { Child } from '../../../test/support/processes/child.js';
import { startRedis } from '../../../test/support/redis/redis-server.js';
import { REQUESTS_OF_A_ROUND } from './client.js';
import type { Reading } from './reading.js';
import type { GrowthSetup } from './setup.js';

export interface GrowthRun extends Omit<GrowthSetup, 'redisUrl'> {
  /** How often the application's process is measured. */
  readonly chunks: number;
  /** The requests before each measurement: whole cycles of the clients. */
  readonly requestsPerChunk: number;
  readonly onReading?: (reading: Reading) => void;
}

export interface GrowthResult {
  readonly readings: readonly Reading[];
  /** Of what was started besides, by name. */
  readonly versions: Readonly<Record<string, string>>;
}

// How it counts objects is an experiment of Node's, which says so.
const APP_OPTIONS = ['--expose-gc', '--disable-warning=ExperimentalWarning'];

/** Measures what an application holds after each chunk of requests; then the records of the chunk are deleted. */
export async function measureGrowth(run: GrowthRun): Promise<GrowthResult> {
  const { chunks, requestsPerChunk, onReading, ...application } = run;
  if (requestsPerChunk % REQUESTS_OF_A_ROUND !== 0) {
    throw new Error(`${requestsPerChunk} requests are not a multiple of ${REQUESTS_OF_A_ROUND}`);
  }
  const redis = application.store === 'redis' ? await startRedis() : undefined;
  const setup: GrowthSetup = { ...application, redisUrl: redis?.url ?? '' };
  const started: Child[] = [];
  const start = async (file: string, nodeOptions: readonly string[], env = {}) => {
    const child = await Child.start(new URL(file, import.meta.url), { nodeOptions, env });
    started.unshift(child);
    return child;
  };
  try {
    const GROWTH_SETUP = JSON.stringify(setup);
    const app = await start('app.ts', APP_OPTIONS, { GROWTH_SETUP });
    const load = await start('load.ts', []);
    await load.call('connect', await app.call('port'));
    const readings: Reading[] = [];
    for (let chunk = 1; chunk <= chunks; chunk += 1) {
      await load.call('send', requestsPerChunk);
      const holdings = await app.call<Omit<Reading, 'requests'>>('read');
      const reading = { requests: chunk * requestsPerChunk, ...holdings };
      readings.push(reading);
      onReading?.(reading);
      await app.call('forget');
    }
    return { readings, versions: await app.call('versions') };
  } finally {
    for (const child of started) await child.stop();
    await redis?.stop();
  }
}
