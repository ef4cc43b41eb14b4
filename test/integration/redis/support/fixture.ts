import { Redis, type RedisOptions } from 'ioredis';
import {
  RedisIdempotencyStore,
  redisStore,
  type OwnConnectionOptions,
} from 'nestjs-idempotency/redis';
import { afterTest } from '../../../support/jest/after-test.js';

export { closeAfterTest } from '../../../support/jest/after-test.js';

/** A store with its own connection, which does not report connection errors. */
export function ownStore(url: string, options: OwnConnectionOptions = {}): RedisIdempotencyStore {
  const store = redisStore({ url, onConnectionError: () => undefined, ...options });
  afterTest(() => store.close());
  return store;
}

/** A client like that of an application, with the defaults of ioredis. */
export function userClient(url: string, options: Omit<RedisOptions, 'replyMapping'> = {}): Redis {
  // A closed socket would keep the process alive for two seconds.
  const client = new Redis(url, { disconnectTimeout: 100, ...options });
  client.on('error', () => undefined);
  afterTest(() => client.disconnect());
  return client;
}
