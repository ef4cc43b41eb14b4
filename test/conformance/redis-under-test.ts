import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { afterAll } from '@jest/globals';
import { Redis } from 'ioredis';
import { redisStore } from 'nestjs-idempotency/redis';
import type { StoreUnderTest } from 'nestjs-idempotency/testing/store';
import {
  RedisIdempotencyStore,
  ioredisLink,
  openConnection,
  ownLink,
} from '../support/internals/redis.js';
import { clockedScripts, LAST_READ_FIRST, setClock, START_MS } from '../support/redis/scripts.js';
import { useRedis } from '../support/redis/use-redis.js';

const redis = useRedis();
let opened: Redis | undefined;
afterAll(() => opened?.disconnect());

export const redisUnderTest: StoreUnderTest = {
  name: 'RedisIdempotencyStore',
  create: async () => {
    const clock = await startClock();
    const store = new RedisIdempotencyStore({
      link: () => ioredisLink(openClient()),
      scripts: clockedScripts,
    });
    return { store, clock, dispose: () => store.close() };
  },
};

/** On a connection that the store opens. */
export const redisOnOwnConnection: StoreUnderTest = {
  name: 'RedisIdempotencyStore on its own connection',
  create: () => createOnOwnConnection(),
};

/** The same, where nearly every finished record is large. */
export const redisWithLargeRecords: StoreUnderTest = {
  name: 'RedisIdempotencyStore on its own connection, with large records',
  create: () => createOnOwnConnection({ largestInScripts: LAST_READ_FIRST }),
};

async function createOnOwnConnection(changes: { readonly largestInScripts?: number } = {}) {
  const clock = await startClock();
  const connect = async () => ownLink(await openConnection({ url: redis.url }));
  const store = new RedisIdempotencyStore({ connect, scripts: clockedScripts, ...changes });
  await store.open();
  return { store, clock, dispose: () => store.close() };
}

/** The channel on which ioredis publishes its commands. */
const COMMANDS = 'tracing:ioredis:command:start';

/** The same, sent with the methods of ioredis, as while a subscriber receives its commands. */
export const redisWithoutOwnCommands: StoreUnderTest = {
  name: 'RedisIdempotencyStore on its own connection, without commands of its own',
  create: async () => {
    const opened = await redisOnOwnConnection.create();
    const onCommand = () => undefined;
    subscribe(COMMANDS, onCommand);
    return {
      ...opened,
      dispose: async () => {
        unsubscribe(COMMANDS, onCommand);
        await opened.dispose?.();
      },
    };
  },
};

/** With a journal, and on the server's own clock. */
export const redisWithJournal: StoreUnderTest = {
  name: 'RedisIdempotencyStore with a journal',
  hasSteppableClock: false,
  create: async () => {
    const store = redisStore({ client: openClient(), journal: { service: 'kit', version: '1' } });
    return { store, dispose: () => store.close() };
  },
};

/** Runs the shipped scripts: for the cases that do not need a driven clock. */
export const redisOnItsOwnClock: StoreUnderTest = {
  name: "RedisIdempotencyStore on the server's own clock",
  hasSteppableClock: false,
  create: async () => {
    const client = openClient();
    const store = redisStore({ client });
    return { store, dispose: () => store.close() };
  },
};

async function startClock() {
  const client = openClient();
  let now = START_MS;
  const set = async (ms: number) => {
    now = ms;
    await setClock(client, now * 1_000 + 517);
  };
  await set(now);
  return { now: () => now, step: (ms: number) => set(now + ms) };
}

function openClient(): Redis {
  return (opened ??= new Redis(redis.url));
}
