import { beforeEach, describe, expect, it } from '@jest/globals';
import type { Redis } from 'ioredis';
import { RedisIdempotencyStore } from 'nestjs-idempotency/redis';
import { StoreConfigurationError } from '../../../support/internals/core.js';
import { freePort } from '../../../support/servers/free-port.js';
import { startRedis } from '../../../support/redis/redis-server.js';
import { inStandingTime } from '../../../support/clocks/driven-time.js';
import { startInfoServer } from '../support/canned-server.js';
import { closeAfterTest, ownStore, userClient } from '../support/fixture.js';
import { useServer } from '../../../support/servers/use-server.js';

/** The longest allowed delay of the start. */
const START_CHECK_MS = 2_000;

const server = useServer(startRedis);
let client: Redis;

beforeEach(async () => {
  client = userClient(server.url);
  await client.config('SET', 'appendonly', 'yes', 'maxmemory-policy', 'noeviction');
});

async function warningsOf(store: RedisIdempotencyStore) {
  return (await store.open()).map(({ code }) => code);
}

describe('At the start', () => {
  it('a durable server without eviction causes no warning', async () => {
    expect(await ownStore(server.url).open()).toEqual([]);
    expect(await new RedisIdempotencyStore({ client }).open()).toEqual([]);
  });

  it.each(['volatile-lru', 'allkeys-random', 'volatile-ttl'])(
    'the eviction policy %s causes a warning with its name and the remedy',
    async (policy) => {
      await client.config('SET', 'maxmemory-policy', policy);
      const [warning] = await ownStore(server.url).open();
      expect(warning).toMatchObject({ code: 'redis_may_evict' });
      expect(warning!.message).toContain(policy);
      expect(warning!.message).toContain('noeviction');
    },
  );

  it('missing durability causes a warning', async () => {
    await client.config('SET', 'appendonly', 'no');
    expect(await warningsOf(ownStore(server.url))).toEqual(['redis_not_durable']);
  });

  it('a replica causes a warning', async () => {
    await client.replicaof('127.0.0.1', '1');
    try {
      expect(await warningsOf(ownStore(server.url))).toEqual(['redis_is_replica']);
    } finally {
      await client.replicaof('NO', 'ONE');
    }
  });

  it('an unreachable server causes a warning, and does not stop the start', async () => {
    const url = `redis://127.0.0.1:${await freePort()}`;
    await inStandingTime(async ({ pass }) => {
      const codes = warningsOf(ownStore(url));
      await pass(START_CHECK_MS);
      expect(await codes).toEqual(['redis_unreachable']);
    });
  });

  it('a reply of another command is reported as such', async () => {
    client.info = () => Promise.resolve(7 as never);
    const [warning] = await new RedisIdempotencyStore({ client }).open();
    expect(warning).toMatchObject({ code: 'redis_not_checked' });
    expect(warning!.message).toMatch(/^Redis sent the reply of another command/);
  });

  it('a server that rejects INFO is tolerated', async () => {
    await client.call('ACL', 'SETUSER', 'app', 'on', '>pw', '~*', '&*', '+@all', '-info');
    const managed = userClient(server.url, {
      username: 'app',
      password: 'pw',
      enableReadyCheck: false,
    });
    expect(await warningsOf(new RedisIdempotencyStore({ client: managed }))).toEqual([
      'redis_not_checked',
    ]);
  });

  it.each(['6.0.16', '5.0.7'])('Redis %s is too old and stops the start', async (version) => {
    const old = closeAfterTest(await startInfoServer(`redis_version:${version}\r\n`));
    const store = new RedisIdempotencyStore({ client: userClient(old.url, { protocol: 2 }) });
    await expect(store.open()).rejects.toThrow(StoreConfigurationError);
    await expect(store.open()).rejects.toThrow(version);
  });

  it.each(['6.2.0', '7.2.4', '8.0.1', '10.0.0'])('Redis %s is supported', async (version) => {
    const fresh = closeAfterTest(await startInfoServer(`redis_version:${version}\r\n`));
    const store = new RedisIdempotencyStore({ client: userClient(fresh.url, { protocol: 2 }) });
    expect(await store.open()).toEqual([]);
  });
});
