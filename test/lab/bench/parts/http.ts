import { startPostgres } from '../../../support/postgres/postgres-server.js';
import { startRedis } from '../../../support/redis/redis-server.js';
import { checkContender } from '../http/check-contender.js';
import type { Platform } from '../http/contender.js';
import { entryOf, type ContenderId } from '../http/contenders.js';
import { httpGroup, type LoadSource, type Scenario } from '../http/http-group.js';
import { RunningServer, type ServerOptions } from '../http/running-server.js';
import { Child } from '../../../support/processes/child.js';
import { interleave, type Factors, type Group, type Rounds } from '../measuring/interleave.js';
import { RedisCpu } from '../measuring/redis-cpu.js';
import { withResources, type Resources } from '../measuring/resources.js';
import { frameworkVersions, peerVersions } from '../measuring/versions.js';
import type { Findings, Part, PartContext, Profile } from './part.js';

const PLATFORMS: readonly Platform[] = ['express', 'fastify'];

const ROUNDS: Readonly<Record<Profile, Rounds>> = {
  quick: { rounds: 3, roundMs: 300, warmUpMs: 1_500, settleMs: 150 },
  default: { rounds: 6, roundMs: 450, warmUpMs: 2_500, settleMs: 200 },
  full: { rounds: 9, roundMs: 3_000, warmUpMs: 5_000, settleMs: 500 },
};

const QUICK: readonly ContenderId[] = [
  'bare',
  'empty',
  'two-commands',
  'redis',
  'node-idempotency',
];
/** Measured even where a distinction takes long. */
const COMPARED: readonly ContenderId[] = ['bare', 'redis', 'node-idempotency'];
const ALL: readonly ContenderId[] = [
  ...QUICK,
  'redis-unpipelined',
  'memory',
  'postgres',
  'powertools',
  'express-idempotency',
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
  /** All where it is left out. */
  readonly contenders?: readonly ContenderId[];
}

export const httpPart: Part = {
  name: 'http',
  needsPeers: true,
  run: (context) => {
    const { profile, library } = context;
    const ids = profile === 'quick' ? QUICK : ALL;
    const competitors = ids.map((contender) => ({ contender, library }));
    return measureHttp(context, ROUNDS[profile], scenariosOf(profile), competitors);
  },
};

/** Measures applications on Express and Fastify, each in a process of its own, under the load of another process. */
export function measureHttp(
  { onProgress }: Pick<PartContext, 'onProgress'>,
  rounds: Rounds,
  scenarios: readonly HttpScenario[],
  competitors: readonly HttpCompetitor[],
): Promise<Findings> {
  return withResources(async (resources) => {
    const { source, redisUrl } = await startLoad(resources);
    const needsPostgres = competitors.some(({ contender }) => contender === 'postgres');
    const postgres = needsPostgres ? await startDurablePostgres(resources) : undefined;
    const groups: Group[] = [];
    for (const platform of PLATFORMS) {
      const servers = new Map<string, { factors: Factors; servers: RunningServer[] }>();
      for (const { contender, library, factors = {}, ...options } of competitors) {
        if (!entryOf(contender).platforms.includes(platform)) continue;
        const postgresUrl = (await postgres?.newDatabase()) ?? '';
        const setup = { contender, platform, redisUrl, postgresUrl, library };
        const server = await RunningServer.start(setup, options);
        resources.defer(() => server.stop());
        await checkContender(server);
        const name = JSON.stringify(factors);
        if (!servers.has(name)) servers.set(name, { factors, servers: [] });
        servers.get(name)!.servers.push(server);
      }
      for (const { scenario, connections, contenders } of scenarios) {
        for (const comparable of servers.values()) {
          const able = comparable.servers.filter(
            (server) =>
              isMeasuredAt(server, scenario) && (contenders?.includes(server.contender) ?? true),
          );
          const conditions = { ...comparable.factors, platform, scenario, connections };
          if (able.length > 0) groups.push(httpGroup(able, conditions, source));
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
  return { source: { generator, redis: cpu }, redisUrl: redis.url };
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

function scenariosOf(profile: Profile): HttpScenario[] {
  const at = (connections: number, ...scenarios: Scenario[]): HttpScenario[] =>
    scenarios.map((scenario) => ({ scenario, connections }));
  const usual = at(64, 'first', 'replay');
  if (profile === 'quick') return usual;
  const others = [...at(64, 'conflict', 'mismatch'), ...at(1, 'first', 'replay')];
  if (profile === 'full') return [...usual, ...others, ...at(1, 'conflict', 'mismatch')];
  return [...usual, ...others.map((scenario) => ({ ...scenario, contenders: COMPARED }))];
}
