import type { OwnConnectionOptions } from 'nestjs-idempotency/redis';
import { openConnection, ownLink, type RedisLink } from '../../../support/internals/redis.js';

/** What the scenes connect with; node-redis.all.test.ts replaces it. */
export async function openLink(options: OwnConnectionOptions): Promise<RedisLink> {
  return ownLink(await openConnection(options));
}
