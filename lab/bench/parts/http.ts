import { startPostgres } from '../../../test/support/postgres/postgres-server.js';
import { startRedis } from '../../../test/support/redis/redis-server.js';
import { checkContender } from '../http/check-contender.js';
import type { Platform } from '../http/contender.js';
import { contenders, entryOf, type ContenderId } from '../http/contenders.js';
import {
  httpGroup,
  type HttpConditions,
  type LoadSource,
  type Scenario,
} from '../http/http-group.js';
import { RunningServer, type ServerOptions } from '../http/running-server.js';
import { wrkVersion } from '../http/wrk.js';
import { Child } from '../../../test/support/processes/child.js';
import {
  interleave,
  together,
  type Factors,
  type Group,
  type Rounds,
} from '../measuring/interleave.js';
import { RedisCpu } from '../measuring/redis-cpu.js';
import { withResources, type Resources } from '../measuring/resources.js';
import { frameworkVersions, peerVersions } from '../measuring/versions.js';
import { everyOf, roundsOf, type Findings, type Part, type PartContext } from './part.js';

const PLATFORMS: readonly Platform[] = ['fastify', 'express'];

const ROUNDS = {
  quick: { rounds: 3, roundMs: 1_000, warmUpMs: 1_000, settleMs: 150 },
  default: { rounds: 20, roundMs: 1_000, warmUpMs: 2_000, settleMs: 150 },
} as const;

/** How many rounds the same processes measure, at least. */
const ROUNDS_OF_A_START = 5;

/** Measured even where a distinction takes long. */
const COMPARED: readonly ContenderId[] = ['bare', 'redis', 'node-idempotency'];

const SCENARIOS: readonly HttpScenario[] = [
  { scenario: 'first', connections: 64 },
  { scenario: 'replay', connections: 64 },
  { scenario: 'first', connections: 1 },
  { scenario: 'replay', connections: 1 },
  { scenario: 'conflict', connections: 64 },
  { scenario: 'mismatch', connections: 64 },
];

export interface HttpCompetitor extends ServerOptions {
  readonly contender: ContenderId;
  readonly library: string;
  /** Under what else than the others: it is compared with those alone that have the same. */
  readonly factors?: Factors;
}

interface HttpScenario {
  readonly scenario: Scenario;
  readonly connections: number;
}

/** See `Entrant.every`; 0 where a contender is left out. */
type Every = (contender: ContenderId, conditions: HttpConditions) => number;

export const httpPart: Part = {
  name: 'http',
  needsPeers: true,
  isJudged: true,
  run: async (context) => {
    const { library, contenders: chosen, onProgress } = context;
    const rounds = roundsOf(context, ROUNDS);
    const ids = (Object.keys(contenders) as ContenderId[]).filter(
      (id) => id !== 'watch-multi' && (chosen?.includes(id) ?? true),
    );
    const competitors = ids.map((contender) => ({ contender, library }));
    const starts = Math.max(1, Math.floor(rounds.rounds / ROUNDS_OF_A_START));
    const found: Findings[] = [];
    for (let start = 0; start < starts; start += 1) {
      // What is left over goes to the first ones.
      const part = { ...rounds, rounds: Math.ceil((rounds.rounds - start) / starts) };
      const every: Every = (contender, conditions) =>
        isMeasured(contender, conditions)
          ? everyOf(context, part, isJudged(contender, conditions))
          : 0;
      const progress = {
        onProgress: (text: string) => {
          onProgress(`start ${start + 1} of ${starts}, ${text}`);
        },
      };
      found.push(await measureHttp(progress, part, SCENARIOS, competitors, every));
    }
    const { versions } = found[0]!;
    return {
      measurements: together(found.map(({ measurements }) => measurements)),
      rounds,
      versions,
    };
  },
};

/** Whether a line of the budget compares it, or has to find that it is not the best of the peers. */
function isJudged(
  contender: ContenderId,
  { platform, scenario, connections }: HttpConditions,
): boolean {
  const isFastify = platform === 'fastify';
  if (scenario !== 'first' && scenario !== 'replay') return false;
  if (contender === 'empty' || contender === 'two-commands') {
    return scenario === 'first' && isFastify && connections === 1;
  }
  // By a replay of the third one the others would be six.
  if (contender === 'express-idempotency') return scenario === 'first' && connections > 1;
  const isCompared = ['redis', 'node-idempotency', 'powertools'].includes(contender);
  return isCompared && (connections > 1 || isFastify);
}

function isMeasured(contender: ContenderId, conditions: HttpConditions): boolean {
  const isUsual = conditions.connections > 1 && ['first', 'replay'].includes(conditions.scenario);
  return isUsual || COMPARED.includes(contender) || isJudged(contender, conditions);
}

/** Measures applications on both platforms, each in a process of its own, under the load of another process. */
export function measureHttp(
  { onProgress }: Pick<PartContext, 'onProgress'>,
  rounds: Rounds,
  scenarios: readonly HttpScenario[],
  competitors: readonly HttpCompetitor[],
  every: Every = () => 1,
): Promise<Findings> {
  return withResources(async (resources) => {
    const { source, redisUrl } = await startLoad(resources);
    const needsPostgres = competitors.some(({ contender }) => contender === 'postgres');
    const postgres = needsPostgres ? await startDurablePostgres(resources) : undefined;
    const groups: Group[] = [];
    for (const platform of PLATFORMS) {
      const conditions = scenarios.map((scenario): HttpConditions => ({ platform, ...scenario }));
      const servers = new Map<string, { factors: Factors; servers: RunningServer[] }>();
      for (const { contender, library, factors = {}, ...options } of competitors) {
        const isIdle = conditions.every((condition) => every(contender, condition) === 0);
        if (isIdle || !entryOf(contender).platforms.includes(platform)) continue;
        const postgresUrl = (await postgres?.newDatabase()) ?? '';
        const setup = { contender, platform, redisUrl, postgresUrl, library };
        const server = await RunningServer.start(setup, options);
        resources.defer(() => server.stop());
        await checkContender(server);
        const name = JSON.stringify(factors);
        if (!servers.has(name)) servers.set(name, { factors, servers: [] });
        servers.get(name)!.servers.push(server);
      }
      for (const condition of conditions) {
        const { scenario } = condition;
        for (const { factors, servers: comparable } of servers.values()) {
          const able = comparable.filter(
            (server) => isMeasuredAt(server, scenario) && every(server.contender, condition) > 0,
          );
          if (able.length === 0) continue;
          const group = httpGroup(able, condition, source, {
            every: ({ contender }) => every(contender, condition),
          });
          groups.push({ ...group, factors: { ...factors, ...group.factors } });
        }
      }
    }
    const measurements = await interleave(groups, rounds, (round) =>
      onProgress(`round ${round} of ${rounds.rounds}`),
    );
    const versions = {
      Redis: await source.redis.version(),
      ...frameworkVersions(),
      ...peerVersions(competitors.map(({ contender }) => contender)),
    };
    return { measurements, rounds, versions };
  });
}

/** A Redis of one's own, and the process that sends requests. */
export async function startLoad(
  resources: Resources,
): Promise<{ source: LoadSource; redisUrl: string }> {
  const redis = await startRedis();
  resources.defer(() => redis.stop());
  const cpu = new RedisCpu([redis.url]);
  resources.defer(() => cpu.close());
  const generator = await Child.start(new URL('../http/load.ts', import.meta.url));
  resources.defer(() => generator.stop());
  const source = { generator, hasWrk: wrkVersion() !== undefined, redis: cpu };
  return { source, redisUrl: redis.url };
}

/** As one runs it where money is at stake: a commit is on the disk before it is confirmed. */
async function startDurablePostgres(resources: Resources) {
  const server = await startPostgres({ settings: { fsync: 'on' } });
  resources.defer(() => server.stop());
  return server;
}

function isMeasuredAt({ entry }: RunningServer, scenario: Scenario): boolean {
  if (scenario === 'first' || scenario === 'replay') return true;
  return entry[scenario] !== undefined;
}
