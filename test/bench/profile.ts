import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import type { Profiler } from 'node:inspector';
import { startRedis } from '../support/redis-server.js';
import type { Platform } from './http/contender.js';
import { contenders, type ContenderId } from './http/contenders.js';
import { httpGroup, type Scenario } from './http/http-group.js';
import { RunningServer } from './http/running-server.js';
import { ensureInstalled } from './install.js';
import { buildLibrary } from './library/build-library.js';
import { Child } from './measuring/child.js';
import { withResources, type Resources } from './measuring/resources.js';
import { startLoad } from './parts/http.js';
import { selfTimes } from './report/self-times.js';
import type { StoreTurn } from './store/worker.js';

const USAGE = `npm run bench:profile -- TASK [--platform express|fastify] [--contender NAME] [--seconds N] [--library DIR]

  TASK  first, replay, conflict, mismatch: requests to the app of a contender (redis, unless another is named)
        pair, store-replay: the Redis store by itself, 32 in flight`;

const WARM_UP_MS = 3_000;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    platform: { type: 'string', default: 'fastify' },
    contender: { type: 'string', default: 'redis' },
    seconds: { type: 'string', default: '5' },
    library: { type: 'string' },
  },
});
const [task = ''] = positionals;
const ms = Number(values.seconds) * 1000;

if (['first', 'replay', 'conflict', 'mismatch', 'pair', 'store-replay'].includes(task)) {
  await ensureInstalled(import.meta.dirname);
  const built = values.library === undefined ? await buildLibrary() : undefined;
  const library = built?.folder ?? resolve(values.library ?? '');
  const isOfStore = task === 'pair' || task === 'store-replay';
  try {
    await withResources(async (resources) => {
      const profile = await (isOfStore ? ofStore : ofServer)(resources, library);
      const { byPlace, byFunction } = selfTimes(profile, library);
      console.table(byPlace);
      console.table(byFunction);
    });
  } finally {
    built?.remove();
  }
} else {
  console.error(USAGE);
  process.exitCode = 2;
}

async function ofServer(resources: Resources, library: string): Promise<Profiler.Profile> {
  if (!(values.contender in contenders)) throw new Error(`no contender "${values.contender}"`);
  const { source, redisUrl } = await startLoad(resources);
  const platform = values.platform as Platform;
  const contender = values.contender as ContenderId;
  const setup = { contender, platform, redisUrl, postgresUrl: '', library };
  const server = await RunningServer.start(setup);
  resources.defer(() => server.stop());
  const conditions = { platform, scenario: task as Scenario, connections: 64 };
  const { entrants } = httpGroup([server], conditions, source);
  await entrants[0]!.run(WARM_UP_MS);
  await server.startProfile();
  await entrants[0]!.run(ms);
  return server.stopProfile();
}

async function ofStore(resources: Resources, library: string): Promise<Profiler.Profile> {
  const redis = await startRedis();
  resources.defer(() => redis.stop());
  const worker = await Child.start(new URL('store/worker.ts', import.meta.url), {
    env: { BENCH_ENTRANT: JSON.stringify({ kind: 'store', library }) },
  });
  resources.defer(() => worker.stop());
  const turn: StoreTurn = {
    task: task === 'pair' ? 'pair' : 'replay',
    via: { url: redis.url, pipelining: true },
    bytes: 200,
    inFlight: 32,
    ms,
  };
  await worker.call('turn', { ...turn, ms: WARM_UP_MS });
  await worker.call('startProfile');
  await worker.call('turn', turn);
  return worker.call('stopProfile');
}
