import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import type { ContenderId } from '../http/contenders.js';
import type { LoadResult } from '../http/load.js';
import type { LoadSource } from '../http/http-group.js';
import { PAYMENT } from '../http/requests.js';
import { RunningServer } from '../http/running-server.js';
import { interleave, type Entrant, type Sample } from '../measuring/interleave.js';
import { withResources } from '../measuring/resources.js';
import { frameworkVersions, peerVersions } from '../measuring/versions.js';
import { startLoad } from './http.js';
import { roundsOf, type Part, type PartContext } from './part.js';

const CLIENTS = 200;
const REQUESTS = 2_000;

const ROUNDS = {
  quick: { rounds: 3, roundMs: 0, warmUpMs: 0 },
  default: { rounds: 9, roundMs: 0, warmUpMs: 0 },
} as const;

/** What clients send for each; what scripts call is counted with the script. */
const SENT: Partial<Record<ContenderId, readonly string[]>> = {
  redis: ['evalsha', 'eval', 'subscribe', 'unsubscribe'],
  'node-idempotency': ['set', 'get'],
  'watch-multi': ['watch', 'unwatch', 'get', 'multi', 'set', 'exec'],
};

/** Many clients, one key, a handler that takes a while. */
export const contentionPart: Part = {
  name: 'contention',
  needsPeers: true,
  run: (context) => measureContention(context),
};

function measureContention(context: PartContext) {
  const { library, onProgress } = context;
  return withResources(async (resources) => {
    const { source, redisUrl } = await startLoad(resources);
    const observer = new Redis(redisUrl);
    resources.defer(() => observer.disconnect());
    const ids: readonly ContenderId[] = ['redis', 'watch-multi', 'node-idempotency'];
    const entrants: Record<'reject' | 'wait', Entrant[]> = { reject: [], wait: [] };
    for (const contender of ids) {
      const setup = { contender, platform: 'fastify', redisUrl, postgresUrl: '', library } as const;
      const server = await RunningServer.start(setup);
      resources.defer(() => server.stop());
      const run = (path: string) => () =>
        rush(server, path, source, observer, SENT[contender] ?? []);
      entrants.reject.push({ name: server.name, run: run('/slow') });
      // It has no way to wait.
      if (contender === 'node-idempotency') continue;
      entrants.wait.push({ name: server.name, run: run('/waiting') });
    }
    const groups = Object.entries(entrants).map(([duplicates, able]) => ({
      factors: { duplicates },
      entrants: able,
    }));
    const rounds = roundsOf(context, ROUNDS);
    const measurements = await interleave(groups, rounds, (round) =>
      onProgress(`round ${round} of ${rounds.rounds}`),
    );
    const versions = {
      Redis: await source.redis.version(),
      ...frameworkVersions(),
      ...peerVersions(ids),
    };
    return { measurements, rounds, versions };
  });
}

/** All clients at once, each with its next request as soon as it has an answer. */
async function rush(
  server: RunningServer,
  path: string,
  { generator, redis }: LoadSource,
  observer: Redis,
  sent: readonly string[],
): Promise<Sample> {
  await redis.flush();
  await observer.config('RESETSTAT');
  const [before, redisBefore] = [await server.state(), await redis.microseconds()];
  const result = await generator.call<LoadResult>('load', {
    url: server.url + path,
    connections: CLIENTS,
    amount: REQUESTS,
    body: PAYMENT,
    key: randomUUID(),
  });
  const [after, redisAfter] = [await server.state(), await redis.microseconds()];
  const { count, seconds, statuses, p50Ms, p99Ms } = result;
  if (count !== REQUESTS) throw new Error(`${server.name} answered ${count} of ${REQUESTS}`);
  return {
    totalMs: seconds * 1000,
    executions: after.effects - before.effects,
    outcomes: statuses[201] ?? 0,
    conflicts: statuses[409] ?? 0,
    commands: (await commandsSent(observer, sent)) / count,
    cpuUs: (after.cpuUs - before.cpuUs) / count,
    redisUs: (redisAfter - redisBefore) / count,
    p50Ms,
    p99Ms,
  };
}

async function commandsSent(observer: Redis, sent: readonly string[]): Promise<number> {
  const statistics = await observer.info('commandstats');
  return sent.reduce((sum, command) => {
    const calls = new RegExp(`^cmdstat_${command}:calls=(\\d+)`, 'm').exec(statistics)?.[1];
    return sum + Number(calls ?? 0);
  }, 0);
}
