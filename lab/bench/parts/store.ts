import { join } from 'node:path';
import { RedisCluster } from '../../../test/support/redis/redis-cluster.js';
import { startRedis } from '../../../test/support/redis/redis-server.js';
import type { Child } from '../../../test/support/processes/child.js';
import { interleave, type Entrant, type Group, type Rounds } from '../measuring/interleave.js';
import { RedisCpu } from '../measuring/redis-cpu.js';
import { withResources, type Resources } from '../measuring/resources.js';
import type { Via } from '../store/tasks.js';
import { startWorker, type WorkerOptions } from '../measuring/worker.js';
import { ROUND, type StoreEntrant, type StoreRound } from '../protocol.js';
import { everyOf, roundsOf, type Findings, type Part, type PartContext } from './part.js';

/** One way to reach Redis, and whose CPU it is to count. */
interface Route {
  readonly via: Omit<Via, 'pipelining'>;
  readonly cpu: RedisCpu;
}

export interface StoreConditions {
  readonly task: 'pair' | 'replay';
  readonly via: 'TCP' | 'Unix socket' | 'Cluster';
  readonly pipelining: 'on' | 'off';
  readonly bytes: number;
  readonly inFlight: number;
}

/** The memory that the records of one slot may take. */
const MOST_BYTES = 512 * 1024 ** 2;
const RECORD_OVERHEAD = 600;

const ROUNDS = {
  quick: { rounds: 3, roundMs: 250, warmUpMs: 500 },
  default: { rounds: 20, roundMs: 400, warmUpMs: 600 },
} as const;

/** Verdicts of the budget rest on these. */
const JUDGED: readonly StoreConditions[] = [
  ...conditions('pair', 'TCP', 'on', 200, [32]),
  ...conditions('pair', 'TCP', 'on', 65_536, [32]),
  ...conditions('replay', 'TCP', 'on', 65_536, [32]),
];

const OTHERS: readonly StoreConditions[] = [
  ...conditions('pair', 'TCP', 'on', 200, [1, 256]),
  ...conditions('pair', 'TCP', 'off', 200, [1, 32, 256]),
  ...conditions('pair', 'TCP', 'on', 4_096, [32]),
  ...conditions('replay', 'TCP', 'on', 200, [1, 32, 256]),
  ...conditions('replay', 'TCP', 'off', 200, [1, 32]),
  ...conditions('replay', 'TCP', 'on', 4_096, [32]),
  ...conditions('pair', 'Unix socket', 'on', 200, [32]),
  ...conditions('pair', 'Unix socket', 'off', 200, [1]),
  ...conditions('replay', 'Unix socket', 'on', 200, [32]),
  ...conditions('pair', 'Cluster', 'on', 200, [32]),
  ...conditions('replay', 'Cluster', 'on', 200, [32]),
];

export const storePart: Part = {
  name: 'store',
  needsPeers: false,
  isJudged: true,
  run: (context) => {
    const { library, isJudgedOnly } = context;
    const rounds = roundsOf(context, ROUNDS);
    const measured = isJudgedOnly ? JUDGED : [...JUDGED, ...OTHERS];
    const entrants = {
      'nestjs-idempotency': { kind: 'store', library },
      'SET NX GET + SET XX': { kind: 'raw' },
      'the same in scripts': { kind: 'scripts' },
    } as const;
    return measureStore(context, rounds, measured, entrants, (condition) =>
      everyOf(context, rounds, JUDGED.includes(condition)),
    );
  },
};

/** Measures entrants on servers of their own, each in a process of its own. */
export function measureStore(
  { onProgress }: Pick<PartContext, 'onProgress'>,
  rounds: Rounds,
  conditions: readonly StoreConditions[],
  entrants: Readonly<Record<string, StoreEntrant & WorkerOptions>>,
  every: (condition: StoreConditions) => number = () => 1,
): Promise<Findings> {
  return withResources(async (resources) => {
    const routes = await openRoutes(resources, new Set(conditions.map(({ via }) => via)));
    const workers = new Map<string, Child>();
    for (const [name, entrant] of Object.entries(entrants)) {
      const env = { BENCH_ENTRANT: JSON.stringify(entrant) };
      const child = await startWorker('store/worker.ts', env, entrant);
      resources.defer(() => child.stop());
      workers.set(name, child);
    }
    const groups = conditions.map((condition): Group => {
      const { via, cpu } = routes.get(condition.via)!;
      return {
        factors: { ...condition },
        entrants: [...workers].map(([name, child]) => ({
          ...entrantOf(name, child, condition, via, cpu),
          every: every(condition),
        })),
      };
    });
    const measurements = await interleave(groups, rounds, (round) =>
      onProgress(`round ${round} of ${rounds.rounds}`),
    );
    const version = await [...routes.values()][0]!.cpu.version();
    return { measurements, rounds, versions: { Redis: version } };
  });
}

function entrantOf(
  name: string,
  child: Child,
  { task, bytes, inFlight, pipelining }: StoreConditions,
  via: Omit<Via, 'pipelining'>,
  cpu: RedisCpu,
): Entrant {
  return {
    name,
    run: async (ms) => {
      const round: StoreRound = {
        ...{ task, bytes, inFlight, ms },
        via: { ...via, pipelining: pipelining === 'on' },
        atMost: Math.floor(MOST_BYTES / (bytes + RECORD_OVERHEAD)),
      };
      await cpu.flush();
      const before = await cpu.microseconds();
      const { count = NaN, ...sample } = await child.call<Record<string, number>>(ROUND, round);
      return { ...sample, redisUs: ((await cpu.microseconds()) - before) / count };
    },
  };
}

async function openRoutes(
  resources: Resources,
  names: ReadonlySet<StoreConditions['via']>,
): Promise<Map<StoreConditions['via'], Route>> {
  const routes = new Map<StoreConditions['via'], Route>();
  const counting = (urls: readonly string[]) => {
    const cpu = new RedisCpu(urls);
    resources.defer(() => cpu.close());
    return cpu;
  };
  if (names.has('TCP') || names.has('Unix socket')) {
    const server = await startRedis({ args: ['--unixsocket', 'redis.sock'] });
    resources.defer(() => server.stop());
    const cpu = counting([server.url]);
    routes.set('TCP', { via: { url: server.url }, cpu });
    routes.set('Unix socket', { via: { path: join(server.dir, 'redis.sock') }, cpu });
  }
  if (names.has('Cluster')) {
    const cluster = await RedisCluster.start({ replicas: 0 });
    resources.defer(() => cluster.stop());
    const cpu = counting(cluster.nodes.map(({ url }) => url));
    routes.set('Cluster', { via: { cluster: cluster.addresses }, cpu });
  }
  return routes;
}

/** With one amount in flight after the other. */
export function conditions(
  task: StoreConditions['task'],
  via: StoreConditions['via'],
  pipelining: StoreConditions['pipelining'],
  bytes: number,
  inFlight: readonly number[],
): StoreConditions[] {
  return inFlight.map((amount) => ({ task, via, pipelining, bytes, inFlight: amount }));
}
