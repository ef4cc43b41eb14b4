import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import type { Profiler } from 'node:inspector';
import { keepReport } from '../../test/support/docs/figures/report.js';
import { startRedis } from '../../test/support/redis/redis-server.js';
import { fromCommandLine, oneOf } from '../command-line.js';
import type { Platform } from './http/contender.js';
import { contenders, type ContenderId } from './http/contenders.js';
import { httpGroup, type Scenario } from './http/http-group.js';
import { RunningServer } from './http/running-server.js';
import { ensureInstalled } from './install.js';
import { NODES, runOn } from './node.js';
import { buildLibrary } from './library/build-library.js';
import { Child } from '../../test/support/processes/child.js';
import { withResources, type Resources } from './measuring/resources.js';
import { startLoad } from './parts/http.js';
import { frameworkVersions } from './measuring/versions.js';
import { sharesByPlace, sideBySide, type ProfileColumn } from './report/profile-table.js';
import { selfTimes } from './report/self-times.js';
import { ROUND, type StoreRound } from './protocol.js';

const USAGE = `npm run lab -- bench profile TASK [--platform express|fastify] [--contender NAME] [--seconds N] [--library DIR] [--report NAME]

  TASK  first, replay, conflict, mismatch: requests to the app of a contender (redis, unless another is named)
        pair, store-replay: the Redis store by itself, 32 in flight
        all: first and replay of this package, by hand and of a peer, and pair, side by side; --report keeps the table`;

const SERVER_TASKS = ['first', 'replay', 'conflict', 'mismatch'];
const STORE_TASKS = ['pair', 'store-replay'];

interface Subject {
  readonly task: string;
  /** Of a server. */
  readonly platform?: Platform;
  readonly contender?: ContenderId;
}

const COMPARED = { redis: 'ours', 'two-commands': 'by hand', 'node-idempotency': 'peer' } as const;

/** What "all" takes. */
const ALL: readonly (Subject & { readonly name: string })[] = [
  ...(
    [
      ['first', 'fastify'],
      ['replay', 'fastify'],
      ['first', 'express'],
    ] as const
  ).flatMap(([task, platform]) =>
    Object.entries(COMPARED).map(([contender, who]) => ({
      name: `${task}, ${platform}: ${who}`,
      task,
      platform,
      contender: contender as ContenderId,
    })),
  ),
  { name: 'the store alone', task: 'pair' },
];

const WARM_UP_MS = 3_000;
/** How long it runs without a profiler, which costs something itself. */
const PLAIN_MS = 2_000;

interface Profiled {
  readonly profile: Profiler.Profile;
  /** Without the profiler. */
  readonly cpuUs: number;
}

const { task, values } = fromCommandLine(USAGE, (args) => {
  const parsed = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      platform: { type: 'string', default: 'fastify' },
      contender: { type: 'string', default: 'redis' },
      seconds: { type: 'string', default: '5' },
      library: { type: 'string' },
      report: { type: 'string' },
    },
  });
  const tasks = [...SERVER_TASKS, ...STORE_TASKS, 'all'];
  oneOf('contender', parsed.values.contender, Object.keys(contenders));
  oneOf('platform', parsed.values.platform, ['express', 'fastify']);
  return { ...parsed, task: taskNamed(parsed.positionals[0], tasks) };
});
const ms = Number(values.seconds) * 1000;

await runOn(NODES[0], import.meta.url);
await ensureInstalled(import.meta.dirname);
const built = values.library === undefined ? await buildLibrary({ withMaps: true }) : undefined;
const library = built?.folder ?? resolve(values.library ?? '');
try {
  if (task === 'all') await profileAll(library);
  else await profileOne(library);
} finally {
  built?.remove();
}

function taskNamed(name = '', tasks: readonly string[]): string {
  if (tasks.includes(name)) return name;
  throw new Error(`unknown task "${name}"`);
}

async function profileOne(library: string): Promise<void> {
  const { platform, contender } = values;
  const subject = {
    task,
    platform: platform as Platform,
    contender: contender as ContenderId,
  };
  const { profile } = await profileOf(library, subject);
  const { byPlace, byFunction } = selfTimes(profile, library);
  console.table(byPlace);
  console.table(byFunction);
}

async function profileAll(library: string): Promise<void> {
  const columns: ProfileColumn[] = [];
  for (const { name, ...subject } of ALL) {
    const { profile, cpuUs } = await profileOf(library, subject);
    columns.push({ name, cpuUs, shares: sharesByPlace(profile, library) });
  }
  const table = sideBySide(columns);
  console.table(table);
  const command = ['all', ...(ms === 5_000 ? [] : ['--seconds', values.seconds])];
  keepReport(values.report, 'bench profile', command, frameworkVersions(), table);
}

function profileOf(library: string, subject: Subject): Promise<Profiled> {
  return withResources((resources) =>
    STORE_TASKS.includes(subject.task)
      ? ofStore(resources, library, subject.task)
      : ofServer(resources, library, subject),
  );
}

async function ofServer(
  resources: Resources,
  library: string,
  { task, platform = 'fastify', contender = 'redis' }: Subject,
): Promise<Profiled> {
  const { source, redisUrl } = await startLoad(resources);
  const setup = { contender, platform, redisUrl, postgresUrl: '', library };
  const server = await RunningServer.start(setup);
  resources.defer(() => server.stop());
  const conditions = { platform, scenario: task as Scenario, connections: 64 };
  const { entrants } = httpGroup([server], conditions, source);
  await entrants[0]!.run(WARM_UP_MS);
  const { cpuUs = NaN } = await entrants[0]!.run(PLAIN_MS);
  await server.startProfile();
  await entrants[0]!.run(ms);
  return { profile: await server.stopProfile(), cpuUs };
}

async function ofStore(resources: Resources, library: string, one: string): Promise<Profiled> {
  const redis = await startRedis();
  resources.defer(() => redis.stop());
  const worker = await Child.start(new URL('store/worker.ts', import.meta.url), {
    env: { BENCH_ENTRANT: JSON.stringify({ kind: 'store', library }) },
  });
  resources.defer(() => worker.stop());
  const round: StoreRound = {
    task: one === 'pair' ? 'pair' : 'replay',
    via: { url: redis.url, pipelining: true },
    bytes: 200,
    inFlight: 32,
    ms,
  };
  await worker.call(ROUND, { ...round, ms: WARM_UP_MS });
  const plain = await worker.call<Record<string, number>>(ROUND, { ...round, ms: PLAIN_MS });
  await worker.call('startProfile');
  await worker.call(ROUND, round);
  return { profile: await worker.call('stopProfile'), cpuUs: plain.cpuUs ?? NaN };
}
