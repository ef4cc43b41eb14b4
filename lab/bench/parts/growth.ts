import { Redis } from 'ioredis';
import { startRedis } from '../../../test/support/redis/redis-server.js';
import { httpGroup } from '../http/http-group.js';
import { paymentOf } from '../http/requests.js';
import { RunningServer } from '../http/running-server.js';
import { Child } from '../../../test/support/processes/child.js';
import { interleave, type Group, type Sample } from '../measuring/interleave.js';
import { RedisCpu } from '../measuring/redis-cpu.js';
import { withResources, type Resources } from '../measuring/resources.js';
import { frameworkVersions } from '../measuring/versions.js';
import { fill } from '../store/fill.js';
import { ROUND, type StoreRound } from '../protocol.js';
import { startLoad } from './http.js';
import { roundsOf, type Findings, type Part, type PartContext } from './part.js';

const ROUNDS = {
  quick: { rounds: 3, roundMs: 200, warmUpMs: 300 },
  default: { rounds: 7, roundMs: 500, warmUpMs: 700 },
} as const;

const RECORDS = {
  quick: [10_000, 100_000],
  default: [10_000, 100_000, 1_000_000],
} as const;

const OUTCOME_BYTES = {
  quick: [200, 65_536],
  default: [200, 4_096, 16_384, 65_536, 262_144],
} as const;

/** Below the 100 KB that Nest's body parser takes by default. */
const REQUEST_BYTES = {
  quick: [200, 65_536],
  default: [200, 4_096, 16_384, 65_536],
} as const;

const IN_FLIGHT = 32;
const CONNECTIONS = 64;
/** The most records that a slot may add if it does not end by time. */
const MOST_BYTES = 256 * 1024 ** 2;

/** How the cost grows with the number of records, and with the sizes of outcome and request. */
export const growthPart: Part = {
  name: 'growth',
  needsPeers: true,
  run: (context) => measureGrowth(context),
};

function measureGrowth(context: PartContext): Promise<Findings> {
  const { profile, library, onProgress } = context;
  return withResources(async (resources) => {
    const entrant = { kind: 'store', library };
    const worker = await Child.start(new URL('../store/worker.ts', import.meta.url), {
      env: { BENCH_ENTRANT: JSON.stringify(entrant) },
    });
    const groups = [
      ...(await byRecords(resources, worker, RECORDS[profile])),
      ...(await byOutcomeBytes(resources, worker, OUTCOME_BYTES[profile])),
      ...(await byRequestBytes(resources, library, REQUEST_BYTES[profile])),
    ];
    // Before the servers that it is connected to.
    resources.defer(() => worker.stop());
    const rounds = roundsOf(context, ROUNDS);
    const measurements = await interleave(groups, rounds, (round) =>
      onProgress(`round ${round} of ${rounds.rounds}`),
    );
    return { measurements, rounds, versions: frameworkVersions() };
  });
}

/** One server for each number of records: the records that a slot adds are deleted. */
async function byRecords(
  resources: Resources,
  worker: Child,
  amounts: readonly number[],
): Promise<Group[]> {
  const servers: { name: string; url: string; cpu: RedisCpu }[] = [];
  for (const amount of amounts) {
    const { url, client, cpu } = await startServer(resources);
    // The original of the copies.
    const round = { ...roundAt(url, 'pair', 200), ms: 60_000, atMost: 1 };
    await worker.call(ROUND, round);
    const [, [key = '']] = await client.scan(0, 'COUNT', 1_000);
    await fill(client, key, amount);
    await worker.call('deleteLatest', url);
    servers.push({ name: String(amount), url, cpu });
  }
  return (['pair', 'replay'] as const).map((task) => ({
    factors: { by: 'records', task },
    entrants: servers.map(({ name, url, cpu }) => ({
      name,
      run: async (ms: number) => {
        const sample = await round(worker, { ...roundAt(url, task, 200), ms }, cpu);
        await worker.call('deleteLatest', url);
        return sample;
      },
    })),
  }));
}

async function byOutcomeBytes(
  resources: Resources,
  worker: Child,
  sizes: readonly number[],
): Promise<Group[]> {
  const { url, cpu } = await startServer(resources);
  return (['pair', 'replay'] as const).map((task) => ({
    factors: { by: 'outcome bytes', task },
    entrants: sizes.map((bytes) => ({
      name: String(bytes),
      run: async (ms: number) => {
        await cpu.flush();
        const atMost = Math.floor(MOST_BYTES / (bytes + 600));
        return round(worker, { ...roundAt(url, task, bytes), ms, atMost }, cpu);
      },
    })),
  }));
}

/** What grows with the request is its fingerprint, and what Nest itself does with it. */
async function byRequestBytes(
  resources: Resources,
  library: string,
  sizes: readonly number[],
): Promise<Group[]> {
  const { source, redisUrl } = await startLoad(resources);
  const servers: RunningServer[] = [];
  for (const contender of ['bare', 'redis'] as const) {
    const setup = { contender, platform: 'fastify', redisUrl, postgresUrl: '', library } as const;
    const server = await RunningServer.start(setup);
    resources.defer(() => server.stop());
    servers.push(server);
  }
  return sizes.map((bytes) => {
    const conditions = {
      platform: 'fastify',
      scenario: 'first',
      connections: CONNECTIONS,
    } as const;
    const { entrants } = httpGroup(servers, conditions, source, {
      body: paymentOf(1990, bytes),
    });
    return { factors: { by: 'request bytes', bytes }, entrants };
  });
}

async function startServer(resources: Resources) {
  const server = await startRedis();
  resources.defer(() => server.stop());
  const client = new Redis(server.url);
  resources.defer(() => client.disconnect());
  const cpu = new RedisCpu([server.url]);
  resources.defer(() => cpu.close());
  return { url: server.url, client, cpu };
}

function roundAt(url: string, task: StoreRound['task'], bytes: number): Omit<StoreRound, 'ms'> {
  return { task, bytes, inFlight: IN_FLIGHT, via: { url, pipelining: true } };
}

async function round(worker: Child, order: StoreRound, cpu: RedisCpu): Promise<Sample> {
  const before = await cpu.microseconds();
  const { count = NaN, ...sample } = await worker.call<Record<string, number>>(ROUND, order);
  return { ...sample, redisUs: ((await cpu.microseconds()) - before) / count };
}
