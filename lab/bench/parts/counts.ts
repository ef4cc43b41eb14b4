import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import type { ContenderId } from '../http/contenders.js';
import { untilStored, type Scenario } from '../http/http-group.js';
import type { LoadOrder, LoadResult } from '../http/load.js';
import { OTHER_PAYMENT, PAYMENT } from '../http/requests.js';
import { RunningServer, type ServerOptions } from '../http/running-server.js';
import type { Child } from '../../../test/support/processes/child.js';
import { spreadsOf, type Measurement, type Sample } from '../measuring/interleave.js';
import { withResources } from '../measuring/resources.js';
import { SentCommands } from '../measuring/sent-commands.js';
import { frameworkVersions, peerVersions } from '../measuring/versions.js';
import { storeTasks } from '../store/tasks.js';
import { startLoad } from './http.js';
import type { Findings, Part, PartContext } from './part.js';

const SIZES = [200, 1_024, 4_096, 16_384, 65_536];

const CONTENDERS: readonly ContenderId[] = [
  'redis',
  'node-idempotency',
  'powertools',
  'express-idempotency',
];

/** So many that a run differs from the next one by a thousandth. */
const ALLOCATING = 10_000;

/** How often each is sent: a command that only some requests send shows. */
const REQUESTS = 20;

/**
 * What does not depend on the machine: the commands that a request sends to Redis, and what a record takes of its memory
 * (MEMORY USAGE), with its key and its entries in the tables of keys. As the applications write it, with the key, the
 * headers and the fingerprint of a real request.
 */
export const countsPart: Part = {
  name: 'counts',
  needsPeers: true,
  isJudged: true,
  run: (context) => measureCounts(context),
};

function measureCounts({ library, onProgress }: PartContext): Promise<Findings> {
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
      for (const responseBytes of SIZES) {
        await client.flushall('SYNC');
        await store(server, responseBytes);
        const sample = await recordIn(client);
        const factors = { outcomeBytes: responseBytes };
        measurements.push({ factors, entrant: server.name, metrics: spreadsOf([sample]) });
      }
      if (contender === 'redis') measurements.push(...(await commandsOf(server, redisUrl)));
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

/** What `bench check` compares of two commits, each driven by its own benchmark's workers. */
export function countsOf(library: string, options: ServerOptions): Promise<Measurement[]> {
  return withResources(async (resources) => {
    const { source, redisUrl } = await startLoad(resources);
    const client = new Redis(redisUrl);
    resources.defer(() => client.disconnect());
    const measurements: Measurement[] = [];
    for (const platform of ['fastify', 'express'] as const) {
      const where = { platform, redisUrl, postgresUrl: '', library };
      const server = await RunningServer.start({ contender: 'redis', ...where }, options);
      resources.defer(() => server.stop());
      await client.flushall('SYNC');
      await store(server, SIZES[0]!);
      const record = { factors: { platform }, metrics: spreadsOf([await recordIn(client)]) };
      measurements.push({ entrant: server.name, ...record });
      for (const counted of [
        ...(await commandsOf(server, redisUrl)),
        ...(await allocationsOf(server, source.generator)),
      ]) {
        measurements.push({ ...counted, factors: { platform, ...counted.factors } });
      }
    }
    return measurements;
  });
}

/** What a request allocates of V8's heap; nothing of a commit that cannot count it. */
async function allocationsOf(server: RunningServer, generator: Child): Promise<Measurement[]> {
  const measurements: Measurement[] = [];
  for (const scenario of ['first', 'replay'] as const) {
    const key = scenario === 'replay' ? { key: randomUUID() } : {};
    const order: LoadOrder = {
      ...{ url: `${server.url}/payments`, connections: 32, amount: ALLOCATING, body: PAYMENT },
      ...key,
    };
    const send = () => generator.call<LoadResult>('load', order);
    // Until V8 has compiled what it will: optimized code allocates less.
    for (let i = 0; i < 3; i += 1) await send();
    const bytes = await server.allocatedDuring(send);
    if (bytes === undefined) continue;
    const metrics = spreadsOf([{ allocated: bytes / ALLOCATING }]);
    measurements.push({ factors: { scenario }, entrant: server.name, metrics });
  }
  return measurements;
}

/** How many commands a request of each kind sends. */
async function commandsOf(server: RunningServer, redisUrl: string): Promise<Measurement[]> {
  const sent = await SentCommands.to(redisUrl);
  const counts: [Scenario, number][] = [];
  try {
    const keys = Array.from({ length: REQUESTS }, () => randomUUID());
    const send = (body: string) => async () => {
      for (const key of keys) await server.post('/payments', key, body);
    };
    // The first one of all loads scripts.
    await server.post('/payments', randomUUID(), PAYMENT);
    counts.push(['first', await sent.during(send(PAYMENT))]);
    counts.push(['replay', await sent.during(send(PAYMENT))]);
    counts.push(['mismatch', await sent.during(send(OTHER_PAYMENT))]);
    const heldKey = randomUUID();
    const held = await server.hold(heldKey, PAYMENT);
    const conflicts = async () => {
      for (let i = 0; i < REQUESTS; i += 1) await server.post('/held', heldKey, PAYMENT);
    };
    counts.push(['conflict', await sent.during(conflicts)]);
    await server.release();
    await held.response;
  } finally {
    sent.close();
  }
  return counts.map(([scenario, count]) => ({
    factors: { scenario },
    entrant: server.name,
    metrics: spreadsOf([{ commands: count / REQUESTS }]),
  }));
}

async function store(server: RunningServer, responseBytes: number): Promise<void> {
  const [key, body] = [randomUUID(), JSON.stringify({ responseBytes })];
  const { status } = await server.post('/payments', key, body);
  if (status !== 201) throw new Error(`${server.name} answered ${status}`);
  await untilStored(server, key, body);
}

/** What the one record takes that there is. */
async function recordIn(client: Redis): Promise<Sample> {
  const [name = ''] = await client.keys(`*:${'?'.repeat(43)}`);
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
