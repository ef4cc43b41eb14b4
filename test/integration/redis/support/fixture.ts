import { afterEach } from '@jest/globals';
import { Redis, type RedisOptions } from 'ioredis';
import {
  RedisIdempotencyStore,
  redisStore,
  type OwnConnectionOptions,
} from 'nestjs-idempotency/redis';

const opened: (() => unknown)[] = [];

afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close();
});

/** Undone after the test, the last one first. */
export function closeAfterTest<T extends { stop(): Promise<void> }>(resource: T): T {
  opened.push(() => resource.stop());
  return resource;
}

/** A store with a connection of its own, which keeps its troubles to itself. */
export function ownStore(url: string, options: OwnConnectionOptions = {}): RedisIdempotencyStore {
  const store = redisStore({ url, onConnectionError: () => undefined, ...options });
  opened.push(() => store.close());
  return store;
}

/** A client as an application would have it, with ioredis' own defaults. */
export function userClient(url: string, options: Omit<RedisOptions, 'replyMapping'> = {}): Redis {
  // A socket that is closed already would keep the process for two seconds.
  const client = new Redis(url, { disconnectTimeout: 100, ...options });
  client.on('error', () => undefined);
  opened.push(() => client.disconnect());
  return client;
}
