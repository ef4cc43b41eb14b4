import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import type { ContenderId } from '../http/contenders.js';
import { untilStored } from '../http/http-group.js';
import { RunningServer } from '../http/running-server.js';
import { spreadsOf, type Measurement, type Sample } from '../measuring/interleave.js';
import { withResources } from '../measuring/resources.js';
import { frameworkVersions, peerVersions } from '../measuring/versions.js';
import { storeTasks } from '../store/tasks.js';
import { startLoad } from './http.js';
import type { Findings, Part, PartContext, Profile } from './part.js';

const SIZES: Readonly<Record<Profile, readonly number[]>> = {
  quick: [200, 4_096],
  default: [200, 1_024, 4_096, 16_384, 65_536],
  full: [200, 1_024, 4_096, 16_384, 65_536, 262_144],
};

const CONTENDERS: readonly ContenderId[] = [
  'redis',
  'node-idempotency',
  'powertools',
  'express-idempotency',
];

/**
 * What a record takes of Redis' memory (MEMORY USAGE), with its key and its entries in the tables of keys. As the
 * applications write it, with the key, the headers and the fingerprint of a real request.
 */
export const memoryPart: Part = {
  name: 'memory',
  needsPeers: true,
  run: (context) => measureMemory(context),
};

function measureMemory({ profile, library, onProgress }: PartContext): Promise<Findings> {
  return withResources(async (resources) => {
    const { source, redisUrl } = await startLoad(resources);
    const client = new Redis(redisUrl);
    resources.defer(() => client.disconnect());
    const measurements: Measurement[] = [];
    for (const contender of CONTENDERS) {
      onProgress(contender);
      const setup = { contender, platform: 'express', redisUrl, postgresUrl: '', library } as const;
      const server = await RunningServer.start(setup);
      resources.defer(() => server.stop());
      for (const responseBytes of SIZES[profile]) {
        await client.flushall('SYNC');
        await store(server, responseBytes);
        const sample = await recordIn(client);
        const factors = { outcomeBytes: responseBytes };
        measurements.push({ factors, entrant: server.name, metrics: spreadsOf([sample]) });
      }
    }
    measurements.push(await recordOfTheBudget(library, client, redisUrl));
    const versions = {
      Redis: await source.redis.version(),
      ...frameworkVersions(),
      ...peerVersions(CONTENDERS),
    };
    return { measurements, rounds: { rounds: 1, roundMs: 0, warmUpMs: 0 }, versions };
  });
}

async function store(server: RunningServer, responseBytes: number): Promise<void> {
  const [key, body] = [randomUUID(), JSON.stringify({ responseBytes })];
  const { status } = await server.post('/payments', key, body);
  if (status !== 201) throw new Error(`${server.name} answered ${status}`);
  await untilStored(server, key, body);
}

/** What the one record takes that there is. */
async function recordIn(client: Redis): Promise<Sample> {
  const [name = ''] = await client.keys('*');
  const bytes = Number(await client.call('MEMORY', 'USAGE', name, 'SAMPLES', '0'));
  return { bytes, keyBytes: name.length };
}

/** The one that the budget speaks of: a key of 59 bytes, a body of 200, headers of 68. */
async function recordOfTheBudget(
  library: string,
  client: Redis,
  url: string,
): Promise<Measurement> {
  await client.flushall('SYNC');
  const tasks = await storeTasks(library, { url, pipelining: true, keyPrefix: 'memory-budget' });
  await tasks.pair('k'.repeat(43), Buffer.alloc(200, 'x'));
  await tasks.close();
  const sample = await recordIn(client);
  return {
    factors: { outcomeBytes: 'budget' },
    entrant: 'nestjs-idempotency, Redis',
    metrics: spreadsOf([sample]),
  };
}
