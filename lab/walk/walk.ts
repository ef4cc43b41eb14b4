import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { Child } from '../../test/support/processes/child.js';
import { projectRoot } from '../../test/support/project-root.js';
import { startRedis } from '../../test/support/redis/redis-server.js';
import { scriptCalls } from '../../test/support/redis/scripts.js';
import type { UsedRabbitMq } from '../../test/support/rabbitmq/use-rabbitmq.js';
import { withResources } from '../bench/measuring/resources.js';
import { SOCKET, type Entry } from './trace.js';
import type { Setup, Step, TripName } from './trip.js';
import { sum } from '../sum.js';

/** So often the application makes a trip before the one that counts. */
const WARM_UPS = 5;

export interface Walk {
  /** Files of `lib` in which a function ran, as paths below `lib`, sorted. */
  readonly files: readonly string[];
  /** Of these files. */
  readonly lines: number;
  /** What the store sent to Redis. */
  readonly scripts: number;
  /** How often the handler ran. */
  readonly executions: number;
  readonly way: Way;
}

/** What a reader who follows the trip has to do. */
export interface Way {
  /** In their order. */
  readonly entries: readonly Entry[];
  readonly calls: number;
  readonly functions: number;
  /** From one file to another. */
  readonly moves: number;
  /** Of these, to a file that was left before. */
  readonly returns: number;
  /** From the store's first command to its socket, with the replies of the functions on the way. */
  readonly movesToSocket: number | undefined;
}

export interface WalkOptions {
  readonly trip: TripName;
  readonly broker: UsedRabbitMq;
  /** A mistake, to see that it shows: what ran at the start and in the warm-up counts, too. */
  readonly keepsStart?: boolean;
}

/** Which files of `lib` one trip enters, in an application of its own. */
export function walk({ trip, broker, keepsStart = false }: WalkOptions): Promise<Walk> {
  return withResources(async (resources) => {
    const redis = await startRedis();
    resources.defer(() => redis.stop());
    const observer = new Redis(redis.url);
    resources.defer(() => observer.disconnect());
    const app = await Child.start(new URL('app.ts', import.meta.url));
    resources.defer(() => app.stop());
    const { url, port, dir } = broker;
    const setup: Setup = { trip, redisUrl: redis.url, broker: { url, port, dir } };
    const earlier = [await app.call<Step>('open', setup)];
    for (let i = 0; i < WARM_UPS; i += 1) earlier.push(await app.call<Step>('go'));
    const scriptsBefore = await scriptCalls(observer);
    const { entries, executions } = await app.call<Step>('go');
    const scripts = (await scriptCalls(observer)) - scriptsBefore;
    const counted = keepsStart ? [...earlier.flatMap((step) => step.entries), ...entries] : entries;
    const files = [...new Set(inLibrary(counted).map(({ file }) => file))].sort();
    const way = wayOf(entries, new URL(redis.url).port);
    return { files, lines: sum(files.map(linesOf)), scripts, executions, way };
  });
}

const inLibrary = (entries: readonly Entry[]) => entries.filter(({ file }) => file !== SOCKET);

/** @param storePort - of the store's server. */
export function wayOf(entries: readonly Entry[], storePort: string): Way {
  const own = inLibrary(entries);
  const stops = stopsOf(own);
  const first = entries.findIndex(
    ({ file, name }) => name === 'begin' && file.startsWith('stores/'),
  );
  const sent = entries.findIndex(
    ({ file, name }, index) => index > first && file === SOCKET && name === storePort,
  );
  return {
    entries,
    calls: own.length,
    functions: new Set(own.map(({ file, at }) => `${file} ${at}`)).size,
    moves: stops.length - 1,
    returns: stops.length - new Set(stops).size,
    movesToSocket:
      first < 0 || sent < 0 ? undefined : stopsOf(inLibrary(entries.slice(first, sent))).length - 1,
  };
}

/** The files in the order in which they are entered, each once for as long as no other one is. */
function stopsOf(entries: readonly Entry[]): readonly string[] {
  return entries.map(({ file }) => file).filter((file, index, all) => file !== all[index - 1]);
}

function linesOf(file: string): number {
  return readFileSync(join(projectRoot, 'lib', file), 'utf8').split('\n').length - 1;
}
