import type { EventEmitter } from 'node:events';
import { Redis } from 'ioredis';
import type { IdempotencyStore } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { redisStore } from 'nestjs-idempotency/redis';
import type { GrowthSetup } from './setup.js';

/** The records of the application: a store whose growth ends where the measurement wants it to. */
export interface Records {
  readonly store: IdempotencyStore;
  /** Lets all records go, as their retention would. */
  forget(): Promise<unknown>;
  /** Of the server, by its name. */
  versions(): Promise<Readonly<Record<string, string>>>;
  /** What the store listens to. */
  emitters(): Readonly<Record<string, EventEmitter>>;
}

export function openRecords({ store, redisUrl }: GrowthSetup, retentionMs: number): Records {
  return store === 'redis' ? inRedis(redisUrl) : inMemory(retentionMs);
}

function inRedis(url: string): Records {
  // Like the store's own connection, whose listeners cannot be counted from outside.
  const client = new Redis(url, { enableAutoPipelining: true });
  return {
    store: redisStore({ client }),
    versions: async () => {
      const [, version = 'unknown'] = /redis_version:(\S+)/.exec(await client.info('server')) ?? [];
      return { Redis: version };
    },
    forget: () => client.flushdb(),
    emitters: () => ({ 'the client': client, "the client's socket": client.stream }),
  };
}

function inMemory(retentionMs: number): Records {
  let passedMs = 0;
  return {
    store: memoryStore({
      maxRecords: 10_000_000,
      now: () => Date.now() + passedMs,
      allowInMemoryStorage: true,
    }),
    versions: () => Promise.resolve({}),
    // They leave with the commands that follow.
    forget: () => Promise.resolve((passedMs += retentionMs)),
    emitters: () => ({}),
  };
}
