import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { Child } from '../../test/support/processes/child.js';
import { projectRoot } from '../../test/support/project-root.js';
import { startRedis } from '../../test/support/redis/redis-server.js';
import { scriptCalls } from '../../test/support/redis/scripts.js';
import type { UsedRabbitMq } from '../../test/support/rabbitmq/use-rabbitmq.js';
import { withResources } from '../bench/measuring/resources.js';
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
    const { files, executions } = await app.call<Step>('go');
    const scripts = (await scriptCalls(observer)) - scriptsBefore;
    const counted = keepsStart ? [...earlier.flatMap((step) => step.files), ...files] : files;
    const unique = [...new Set(counted)].sort();
    return { files: unique, lines: sum(unique.map(linesOf)), scripts, executions };
  });
}

function linesOf(file: string): number {
  return readFileSync(join(projectRoot, 'lib', file), 'utf8').split('\n').length - 1;
}
