import { describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { UNKNOWN_FENCE, type Lease } from 'nestjs-idempotency/store';
import { RedisIdempotencyStore } from 'nestjs-idempotency/redis';
import { startRedis } from '../../support/redis/redis-server.js';
import { startSilentServer } from './support/canned-server.js';
import {
  beginCommand,
  leaseOf,
  newRecordKey,
  releaseCommand,
  TIMEOUT_MS,
  acquire,
  end,
  watch as watchFor,
} from '../../support/stores/commands.js';
import { closeAfterTest, ownStore, userClient } from './support/fixture.js';
import { until } from '../../support/waiting/until.js';
import { useRedisClient } from '../../support/redis/use-redis.js';
import { useServer } from '../../support/servers/use-server.js';
import { RedisNode } from '../../support/redis/redis-node.js';

const server = useServer(startRedis);
const observer = useRedisClient(server);

/** A store on a client of the application. */
function storeOver(client: Redis, push?: boolean): RedisIdempotencyStore {
  const store = new RedisIdempotencyStore({ client, push });
  closeAfterTest({ stop: () => store.close() });
  return store;
}

const watch = (store: RedisIdempotencyStore, record: Pick<Lease, 'recordKey'>) =>
  watchFor(store, record, TIMEOUT_MS);

async function openChannels(): Promise<number> {
  return ((await observer.call('PUBSUB', 'CHANNELS')) as unknown[]).length;
}

describe.each([
  ['its own connection', () => ownStore(server.url)],
  ['a client of the application', () => storeOver(userClient(server.url))],
  ['a client with a key prefix', () => storeOver(userClient(server.url, { keyPrefix: 'shop:' }))],
])('A store with %s', (_, open) => {
  it.each(['completed', 'released'] as const)(
    'notifies that a watched record was %s, and of no other record',
    async (how) => {
      const [worker, other] = [open(), open()];
      const [watched, neighbour] = [await acquire(worker), await acquire(worker)];
      const watcher = await watch(other, watched);
      await end[how](worker, neighbour, true);
      await end[how](worker, watched, true);
      await until(() => watcher.reported > 0);
      expect(watcher.reported).toBe(1);
      watcher.stop?.();
      await until(async () => (await openChannels()) === 0);
    },
  );
});

describe('A store', () => {
  it('publishes nothing for operations without waiting duplicates', async () => {
    const store = ownStore(server.url);
    await observer.config('RESETSTAT');
    await end.completed(store, await acquire(store));
    await end.released(store, await acquire(store), false);
    await end.completed(store, await acquire(store), true);
    const statistics = await observer.info('commandstats');
    expect(/cmdstat_publish:calls=(\d+)/.exec(statistics)?.[1]).toBe('1');
  });

  it('opens one connection and one subscription for all watches', async () => {
    const store = ownStore(server.url);
    const lease = await acquire(store);
    await observer.config('RESETSTAT');
    const watchers = await Promise.all(Array.from({ length: 20 }, () => watch(store, lease)));
    const statistics = await observer.info('commandstats');
    expect(/cmdstat_subscribe:calls=(\d+)/.exec(statistics)?.[1]).toBe('1');
    const clients = String(await observer.client('LIST', 'TYPE', 'PUBSUB'));
    expect(clients.trim().split('\n')).toHaveLength(1);

    await end.completed(store, lease, true);
    await until(() => watchers.every(({ reported }) => reported === 1));
    for (const { stop } of watchers.slice(1)) stop?.();
    expect(await openChannels()).toBe(1);
    watchers[0]!.stop?.();
    await until(async () => (await openChannels()) === 0);
  });

  it('closes its listening connection', async () => {
    const store = storeOver(userClient(server.url));
    await watch(store, { recordKey: newRecordKey() });
    await store.close();
    await until(async () => !String(await observer.client('LIST')).includes('cmd=subscribe'));
  });

  it('does not listen between its close and its next open', async () => {
    const [own, borrowing] = [ownStore(server.url), storeOver(userClient(server.url))];
    for (const store of [own, borrowing]) {
      await store.open();
      await store.close();
      const record = { recordKey: newRecordKey() };
      expect((await watch(store, record)).stop).toBeUndefined();
      expect(String(await observer.client('LIST', 'TYPE', 'PUBSUB'))).toBe('');
      await store.open();
      expect((await watch(store, record)).stop).toBeDefined();
      await store.close();
      await until(async () => String(await observer.client('LIST', 'TYPE', 'PUBSUB')) === '');
    }
  });

  it('does not listen or publish with push: false', async () => {
    const store = ownStore(server.url, { push: false });
    await observer.config('RESETSTAT');
    const lease = await acquire(store);
    expect((await watch(store, lease)).stop).toBeUndefined();
    await end.completed(store, lease, true);
    expect(await observer.info('commandstats')).not.toMatch(/cmdstat_(publish|subscribe)/);
  });

  it('completes without permission to publish, and returns no watch without permission to listen', async () => {
    await observer.call('ACL', 'SETUSER', 'mute', 'on', '>pass', '~*', '+@all', 'resetchannels');
    const store = storeOver(userClient(server.url, { username: 'mute', password: 'pass' }));
    const lease = await acquire(store);
    expect((await watch(store, lease)).stop).toBeUndefined();
    expect(await end.completed(store, lease, true)).toEqual({ kind: 'ok' });
    expect(await store.inspect(lease.recordKey, { timeoutMs: TIMEOUT_MS })).toMatchObject({
      state: 'completed',
    });
  });

  it.each([
    ['is down', () => RedisNode.down()],
    ['is silent', () => startSilentServer()],
  ])('returns no watch within the timeout while its server %s', async (_, start) => {
    const store = ownStore(closeAfterTest(await start()).url);
    const stop = await store.watch(newRecordKey(), () => undefined, { timeoutMs: 200 });
    expect(stop).toBeUndefined();
  });

  it('listens again when its server is back', async () => {
    const redis = closeAfterTest(await RedisNode.down());
    await redis.start();
    const store = ownStore(redis.url);
    const recordKey = newRecordKey();
    const beginAndRelease = async () => {
      const begin = beginCommand({ recordKey });
      await store.begin(begin);
      await store.release(leaseOf(begin, UNKNOWN_FENCE), releaseCommand({ notify: true }));
    };
    await until(() => succeeds(beginAndRelease));
    const watcher = await watch(store, { recordKey });
    expect(watcher.stop).toBeDefined();
    await redis.kill();
    await redis.start();
    await until(async () => (await succeeds(beginAndRelease)) && watcher.reported > 0);
  });
});

function succeeds(work: () => Promise<unknown>): Promise<boolean> {
  return work().then(
    () => true,
    () => false,
  );
}
