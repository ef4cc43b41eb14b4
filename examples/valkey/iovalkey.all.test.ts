import { describe, expect, it } from '@jest/globals';
import { Redis } from 'iovalkey';
import { redisStore } from 'nestjs-idempotency/redis';
import { describeStoreConformance } from 'nestjs-idempotency/testing/store';
import { ioredisLink, RedisIdempotencyStore } from '../../test/support/internals/redis.js';
import { clockedScripts, setClock, START_MS } from '../../test/support/redis/scripts.js';
import { startRedis } from '../../test/support/redis/redis-server.js';
import { useRedis, useRedisClient } from '../../test/support/redis/use-redis.js';
import { useServer } from '../../test/support/servers/use-server.js';
import { beginCommand, acquire, end, watch } from '../../test/support/stores/commands.js';
import { until } from '../../test/support/waiting/until.js';

const server = useRedis();
const admin = useRedisClient(server);
const client = useServer(
  () => new Redis(server.url, { enableAutoPipelining: true }),
  (connection) => connection.disconnect(),
);

describeStoreConformance(
  { describe, it },
  {
    name: 'RedisIdempotencyStore on a client of iovalkey',
    create: async () => {
      let now = START_MS;
      const set = async (ms: number) => {
        now = ms;
        await setClock(admin, now * 1_000 + 517);
      };
      await set(now);
      const store = new RedisIdempotencyStore({
        link: () => ioredisLink(client),
        scripts: clockedScripts,
      });
      const clock = { now: () => now, step: (ms: number) => set(now + ms) };
      return { store, clock, dispose: () => store.close() };
    },
  },
);

describe('A store on a client of iovalkey', () => {
  it('is notified of the end of an operation on a connection of its own', async () => {
    const store = redisStore({ client });
    const record = await acquire(store);
    const watcher = await watch(store, record, 5_000);
    await end.completed(store, record, true);
    await until(() => watcher.reported > 0);
    watcher.stop?.();
    await store.close();
  });

  it('reports a server that is down, and works again when it is back', async () => {
    const down = await startRedis();
    const own = new Redis(down.url, { disconnectTimeout: 100, retryStrategy: () => 20 });
    own.on('error', () => undefined);
    const store = redisStore({ client: own });
    await acquire(store);
    await down.stop();
    await expect(store.begin(beginCommand({ timeoutMs: 300 }))).rejects.toMatchObject({
      name: expect.stringMatching(/^Store(Unavailable|OutcomeUnknown)Error$/),
    });
    const back = await startRedis({ port: down.port });
    await until(async () => {
      const begun = store.begin(beginCommand({ timeoutMs: 300 }));
      return (await begun.catch(() => undefined))?.kind === 'acquired';
    });
    await store.close();
    own.disconnect();
    await back.stop();
  });
});
