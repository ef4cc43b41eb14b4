import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import type { Profiler } from 'node:inspector';
import { keepReport } from '../support/figures/keep-report.js';
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
import { frameworkVersions } from './measuring/versions.js';
import { sharesByPlace, sideBySide, type ProfileColumn } from './report/profile-table.js';
import { selfTimes } from './report/self-times.js';
import type { StoreTurn } from './store/worker.js';

const USAGE = `npm run bench:profile -- TASK [--platform express|fastify] [--contender NAME] [--seconds N] [--library DIR] [--report NAME]

  TASK  first, replay, conflict, mismatch: requests to the app of a contender (redis, unless another is named)
        pair, store-replay: the Redis store by itself, 32 in flight
        all: first and replay on both platforms, and pair, side by side; --report keeps the table`;

const SERVER_TASKS = ['first', 'replay', 'conflict', 'mismatch'];
const STORE_TASKS = ['pair', 'store-replay'];

/** What "all" takes. */
const ALL = [
  ...(['express', 'fastify'] as const).flatMap((platform) =>
    ['first', 'replay'].map((task) => ({ task, platform })),
  ),
  { task: 'pair', platform: undefined },
];

const WARM_UP_MS = 3_000;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    platform: { type: 'string', default: 'fastify' },
    contender: { type: 'string', default: 'redis' },
    seconds: { type: 'string', default: '5' },
    library: { type: 'string' },
    report: { type: 'string' },
  },
});
const [task = ''] = positionals;
const ms = Number(values.seconds) * 1000;

if ([...SERVER_TASKS, ...STORE_TASKS, 'all'].includes(task)) {
  await ensureInstalled(import.meta.dirname);
  const built = values.library === undefined ? await buildLibrary() : undefined;
  const library = built?.folder ?? resolve(values.library ?? '');
  try {
    if (task === 'all') await profileAll(library);
    else await profileOne(library);
  } finally {
    built?.remove();
  }
} else {
  console.error(USAGE);
  process.exitCode = 2;
}

async function profileOne(library: string): Promise<void> {
  const profile = await profileOf(library, task, values.platform as Platform);
  const { byPlace, byFunction } = selfTimes(profile, library);
  console.table(byPlace);
  console.table(byFunction);
}

async function profileAll(library: string): Promise<void> {
  const columns: ProfileColumn[] = [];
  for (const { task: one, platform } of ALL) {
    const profile = await profileOf(library, one, platform);
    const name = platform === undefined ? 'the store alone' : `${one}, ${platform}`;
    columns.push({ name, shares: sharesByPlace(profile, library) });
  }
  const table = sideBySide(columns);
  console.table(table);
  if (values.report !== undefined) {
    const command = ['all', ...(ms === 5_000 ? [] : ['--seconds', values.seconds])];
    keepReport(values.report, 'bench:profile', command, frameworkVersions(), table);
  }
}

function profileOf(library: string, one: string, platform?: Platform): Promise<Profiler.Profile> {
  return withResources((resources) =>
    STORE_TASKS.includes(one)
      ? ofStore(resources, library, one)
      : ofServer(resources, library, one as Scenario, platform ?? 'fastify'),
  );
}

async function ofServer(
  resources: Resources,
  library: string,
  scenario: Scenario,
  platform: Platform,
): Promise<Profiler.Profile> {
  if (!(values.contender in contenders)) throw new Error(`no contender "${values.contender}"`);
  const { source, redisUrl } = await startLoad(resources);
  const contender = values.contender as ContenderId;
  const setup = { contender, platform, redisUrl, postgresUrl: '', library };
  const server = await RunningServer.start(setup);
  resources.defer(() => server.stop());
  const conditions = { platform, scenario, connections: 64 };
  const { entrants } = httpGroup([server], conditions, source);
  await entrants[0]!.run(WARM_UP_MS);
  await server.startProfile();
  await entrants[0]!.run(ms);
  return server.stopProfile();
}

async function ofStore(
  resources: Resources,
  library: string,
  one: string,
): Promise<Profiler.Profile> {
  const redis = await startRedis();
  resources.defer(() => redis.stop());
  const worker = await Child.start(new URL('store/worker.ts', import.meta.url), {
    env: { BENCH_ENTRANT: JSON.stringify({ kind: 'store', library }) },
  });
  resources.defer(() => worker.stop());
  const turn: StoreTurn = {
    task: one === 'pair' ? 'pair' : 'replay',
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
