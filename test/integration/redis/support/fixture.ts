import { Redis, type RedisOptions } from 'ioredis';
import {
  RedisIdempotencyStore,
  redisStore,
  type OwnConnectionOptions,
} from 'nestjs-idempotency/redis';
import { afterTest } from '../../../support/after-test.js';

export { closeAfterTest } from '../../../support/after-test.js';

/** A store with a connection of its own, which keeps its troubles to itself. */
export function ownStore(url: string, options: OwnConnectionOptions = {}): RedisIdempotencyStore {
  const store = redisStore({ url, onConnectionError: () => undefined, ...options });
  afterTest(() => store.close());
  return store;
}

/** A client as an application would have it, with ioredis' own defaults. */
export function userClient(url: string, options: Omit<RedisOptions, 'replyMapping'> = {}): Redis {
  // A socket that is closed already would keep the process for two seconds.
  const client = new Redis(url, { disconnectTimeout: 100, ...options });
  client.on('error', () => undefined);
  afterTest(() => client.disconnect());
  return client;
}
