import { Module } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { describe, expect, it, jest } from '@jest/globals';
import { createServer } from 'node:http';
import { once } from 'node:events';
import { Redis } from 'ioredis';
import { IdempotencyModule, StoreConfigurationError } from 'nestjs-idempotency';
import { redisStore, type OwnConnectionOptions } from 'nestjs-idempotency/redis';
import { freePort } from '../../../support/servers/free-port.js';
import { startRedis } from '../../../support/redis/redis-server.js';
import { LoggedLines } from '../../../support/nest/logged-lines.js';
import { beginCommand } from '../../../support/stores/commands.js';
import { closeAfterTest, ownStore, userClient } from '../support/fixture.js';
import { until } from '../../../support/waiting/until.js';
import { useRedisClient } from '../../../support/redis/use-redis.js';
import { useServer } from '../../../support/servers/use-server.js';
import { RedisNode } from '../../../support/redis/redis-node.js';

const server = useServer(() => startRedis({ args: ['--databases', '4'] }));
const admin = useRedisClient(server);

/** The number of keys in each database, from the server. */
async function keyspace(of: Redis = admin): Promise<Record<string, number>> {
  const info = await of.info('keyspace');
  return Object.fromEntries(
    [...info.matchAll(/^(db\d+):keys=(\d+)/gm)].map(([, name, keys]) => [name, Number(keys)]),
  );
}

const REJECTED = /Cannot select database 99: ERR DB index is out of range\. .*"url".*"db"/;

describe('A database that the server does not have', () => {
  it.each<[string, () => OwnConnectionOptions]>([
    ['at the end of the url', () => ({ url: `${server.url}/99` })],
    ['of the connection', () => ({ url: server.url, connection: { db: 99 } })],
    [
      'with commands in the offline queue of ioredis',
      () => ({
        url: `${server.url}/99`,
        connection: { enableOfflineQueue: true, maxRetriesPerRequest: null },
      }),
    ],
    [
      'without a ready check',
      () => ({ url: `${server.url}/99`, connection: { enableReadyCheck: false } }),
    ],
    [
      'with waitReplicas',
      () => ({ url: `${server.url}/99`, waitReplicas: { count: 1, timeoutMs: 20 } }),
    ],
  ])(
    '%s stops each of ten starts',
    async (_, options) => {
      for (let round = 0; round < 10; round += 1) {
        const store = ownStore('', options());
        await expect(store.open()).rejects.toThrow(StoreConfigurationError);
        const unopened = ownStore('', options());
        await expect(unopened.begin(beginCommand())).rejects.toThrow(REJECTED);
      }
      expect(await keyspace()).toEqual({});
    },
    30_000,
  );

  it('stops the start of an application with a remedy', async () => {
    @Module({
      imports: [IdempotencyModule.forRoot({ store: redisStore({ url: `${server.url}/99` }) })],
    })
    class AppModule {}
    const log = new LoggedLines();
    const app = await Test.createTestingModule({ imports: [AppModule] })
      .setLogger(log)
      .compile();
    await expect(app.init()).rejects.toThrow(REJECTED);
    await app.close();
    expect(log.own).toEqual([]);
  });

  it.each(['abc', '-1'])('that is not a number, %j, is rejected', async (db) => {
    await expect(ownStore(`${server.url}/${db}`).open()).rejects.toMatchObject({
      code: 'idempotency_options_invalid',
    });
    expect(await keyspace()).toEqual({});
  });

  it('on a client of the application stops the start, and nothing is written', async () => {
    const client = userClient(`${server.url}/99`);
    await client.ping();
    const store = redisStore({ client });
    await expect(store.open()).rejects.toThrow(/database 99: .* has database 0/);
    await expect(redisStore({ client }).begin(beginCommand())).rejects.toThrow(
      StoreConfigurationError,
    );
    expect(await keyspace()).toEqual({});
  });

  it('that the user may not select stops the start', async () => {
    await admin.call('ACL', 'SETUSER', 'limited', 'on', '>pw', '~*', '&*', '+@all', '-select');
    const url = `redis://limited:pw@127.0.0.1:${server.port}/2`;
    await expect(ownStore(url).open()).rejects.toThrow(/Cannot select database 2: NOPERM/);
    expect(await keyspace()).toEqual({});
  });

  it.each([
    { denied: ['-client'], reply: { kind: 'acquired' }, databases: { db2: 1 } },
    {
      denied: ['-client', '-select'],
      reply: { code: 'idempotency_store_misconfigured' },
      databases: {},
    },
  ])(
    'is not replaced by another for a client whose user has $denied',
    async ({ denied, reply, databases }) => {
      await admin.call('ACL', 'SETUSER', 'bound', 'reset', 'on', '>pw', '~*', '&*', '+@all');
      await admin.call('ACL', 'SETUSER', 'bound', ...denied);
      const client = userClient(`redis://bound:pw@127.0.0.1:${server.port}/2`);
      const store = redisStore({ client });
      closeAfterTest({ stop: () => store.close() });
      const begun = store.begin(beginCommand()).catch((error: unknown) => error);
      await expect(begun).resolves.toMatchObject(reply);
      expect(await keyspace()).toEqual(databases);
      await admin.flushall();
    },
  );
});

describe('A database that the server has', () => {
  it('is the only one that the connections write to', async () => {
    const replica = await startRedis({ args: ['--replicaof', '127.0.0.1', String(server.port)] });
    closeAfterTest(replica);
    await admin.flushall();
    await until(async () => (await admin.info('replication')).includes('state=online'));
    const selecting = userClient(server.url);
    await selecting.select(3);
    const stores = [
      ownStore(`${server.url}/3`),
      ownStore(`${server.url}/3`, { waitReplicas: { count: 1, timeoutMs: 2_000 } }),
      redisStore({ client: userClient(`${server.url}/3`) }),
      redisStore({ client: selecting, waitReplicas: { count: 1, timeoutMs: 2_000 } }),
    ];
    for (const store of stores) {
      closeAfterTest({ stop: () => store.close() });
      await store.open();
      expect((await store.begin(beginCommand({ timeoutMs: 10_000 }))).kind).toBe('acquired');
    }
    expect(await keyspace()).toEqual({ db3: stores.length });
    await admin.flushall();
  }, 30_000);

  it('is not replaced by another when a restart removes it, and is used again later', async () => {
    const restartable = closeAfterTest(await RedisNode.down());
    const watcher = userClient(restartable.url);
    await restartable.start('--databases', '4');
    const store = ownStore(`${restartable.url}/3`, { connection: { maxRetriesPerRequest: null } });
    const begin = (timeoutMs = 10_000) => store.begin(beginCommand({ timeoutMs }));
    expect((await begin()).kind).toBe('acquired');

    await restartable.kill();
    await restartable.start('--databases', '2');
    // Until it exists again, begins fail without a connection.
    await until(async () => (await begin(500).then(String, String)).includes('database 3'));
    for (let round = 0; round < 20; round += 1) {
      await expect(begin(500)).rejects.toThrow();
    }
    expect(await keyspace(watcher)).toEqual({});

    await restartable.kill();
    await restartable.start('--databases', '4');
    await until(async () => (await begin(500).catch(() => undefined))?.kind === 'acquired');
    expect(Object.keys(await keyspace(watcher))).toEqual(['db3']);
  }, 30_000);
});

describe('A connection warning', () => {
  it('of a server that is not Redis says so and stops the start', async () => {
    const web = createServer((_, response) => response.end('hello'));
    web.listen(0, '127.0.0.1');
    await once(web, 'listening');
    closeAfterTest({ stop: async () => void web.close() });
    const { port } = web.address() as { port: number };
    const starting = ownStore(`redis://127.0.0.1:${port}`).open();
    await expect(starting).rejects.toThrow(StoreConfigurationError);
    await expect(ownStore(`redis://127.0.0.1:${port}`).open()).rejects.toThrow(
      /does not speak the Redis protocol \(.+\)\. Check host and port/,
    );
  });

  it("is written only to Nest's log, once for each outage", async () => {
    const restartable = closeAfterTest(await RedisNode.down());
    await restartable.start();
    const elsewhere = [
      jest.spyOn(process, 'emitWarning').mockReturnValue(undefined),
      ...(['log', 'warn', 'error'] as const).map((name) =>
        jest.spyOn(console, name).mockReturnValue(undefined),
      ),
    ];
    try {
      const store = redisStore({ url: restartable.url });
      @Module({ imports: [IdempotencyModule.forRoot({ store })] })
      class AppModule {}
      const log = new LoggedLines();
      const app = await Test.createTestingModule({ imports: [AppModule] })
        .setLogger(log)
        .compile();
      closeAfterTest({ stop: () => app.close() });
      await app.init();
      log.lines.length = 0;
      await restartable.kill();
      await until(() => log.own.length > 0);
      await expect(store.begin(beginCommand({ timeoutMs: 300 }))).rejects.toThrow();
      expect(log.own).toEqual([
        expect.stringMatching(
          /^warn: The connection to Redis failed: .*ECONNREFUSED.* \[redis_connection_failed\]$/,
        ),
      ]);
      for (const other of elsewhere) expect(other).not.toHaveBeenCalled();
    } finally {
      for (const other of elsewhere) other.mockRestore();
    }
  });

  it('of a server that is down at the start is one line', async () => {
    const store = redisStore({ url: `redis://127.0.0.1:${await freePort()}` });
    const warn = jest.spyOn(process, 'emitWarning').mockReturnValue(undefined);
    const log = new LoggedLines();
    const imports = [IdempotencyModule.forRoot({ store })];
    const app = await Test.createTestingModule({ imports }).setLogger(log).compile();
    try {
      await app.init();
      expect(log.own).toEqual([expect.stringMatching(/\[redis_unreachable\]$/)]);
      expect(warn).not.toHaveBeenCalled();
    } finally {
      warn.mockRestore();
      await app.close();
    }
  });
});
