import { once } from 'node:events';
import { createServer } from 'node:http';
import { beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Module } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { Redis } from 'ioredis';
import {
  type IdempotencyEvent,
  IdempotencyMeter,
  IdempotencyModule,
  type IdempotencyModuleOptions,
  IdempotencyService,
  StoreConfigurationError,
} from 'nestjs-idempotency';
import {
  type OwnConnectionOptions,
  type RedisIdempotencyStore,
  redisStore,
} from 'nestjs-idempotency/redis';
import { inStandingTime } from '../../../support/clocks/driven-time.js';
import { notePlace } from '../../../support/internals/core.js';
import { afterTest } from '../../../support/jest/after-test.js';
import { callingApp, rejection } from '../../../support/nest/calling-app.js';
import { LoggedLines } from '../../../support/nest/logged-lines.js';
import { RedisNode } from '../../../support/redis/redis-node.js';
import { startRedis } from '../../../support/redis/redis-server.js';
import { useRedisClient } from '../../../support/redis/use-redis.js';
import { freePort } from '../../../support/servers/free-port.js';
import { useServer } from '../../../support/servers/use-server.js';
import { beginCommand } from '../../../support/stores/commands.js';
import { SERVICE } from '../../../support/stores/named-for.js';
import { until } from '../../../support/waiting/until.js';
import { startInfoServer } from '../support/canned-server.js';
import { closeAfterTest, ownStore, userClient } from '../support/fixture.js';

describe('start steps', () => {
  // Its users and settings change.
  const server = useServer(() => startRedis({ args: ['--appendonly', 'yes'] }));
  const admin = useRedisClient(server);

  async function start(
    url: string,
    options: object = {},
    module: Partial<IdempotencyModuleOptions> = {},
  ) {
    const store = redisStore({
      url,
      onConnectionError: () => undefined,
      ...options,
    });
    const app = await callingApp({}, { store, ...module });
    afterTest(() => app.nest.close());
    const service = app.nest.get(IdempotencyService, { strict: false });
    const events: readonly IdempotencyEvent[] = app.events;
    return {
      ...app,
      events,
      store,
      codes: () => app.log.own.flatMap((line) => /\[(\w+)\]$/.exec(line)?.[1] ?? []),
      run: (key: string) => service.run({ operation: 'pay', key, scope: 'alice' }, () => 'paid'),
    };
  }

  /** @returns the URL of the user, who has these rules from now on. */
  async function userWith(...rules: readonly string[]): Promise<string> {
    await admin.call('ACL', 'SETUSER', 'app', 'reset', 'on', '>pw', ...rules);
    return `redis://app:pw@127.0.0.1:${server.port}`;
  }

  describe('The start stops, with the remedy, for a user', () => {
    it.each<[string, string[], RegExp, object?]>([
      [
        'without scripting',
        ['~*', '&*', '+@all', '-@scripting'],
        /may not run scripts.*\+eval \+evalsha/,
      ],
      ['without EVALSHA', ['~*', '&*', '+@all', '-evalsha'], /'evalsha' command.*requires EVALSHA/],
      [
        'with another key pattern',
        ['~other:*', '&*', '+@all'],
        /may not read and write the keys.*~idem:\*, or set keyPrefix/,
      ],
      [
        'with another key pattern than its prefix',
        ['~idem:*', '&*', '+@all'],
        /~shop:eu:\*/,
        { keyPrefix: 'shop:eu' },
      ],
      ['who may only read keys', ['%R~*', '&*', '+@all'], /may not read and write the keys/],
      [
        'who may only run commands that read',
        ['~*', '&*', '+@read', '+info'],
        /may not run scripts/,
      ],
      [
        'without SET',
        ['~*', '&*', '+@all', '-set'],
        /requires EVALSHA, EVAL, TIME, GETRANGE, GET, SET/,
      ],
      // Which no step of the start needs: a replay and a heartbeat would.
      ['without GET', ['~*', '&*', '+@all', '-get'], /may not run.*SETUSER … \+get\./],
      [
        'without the commands on the lifetime of keys',
        ['~*', '&*', '+@all', '-@keyspace'],
        /may not run.*SETUSER … \+pexpireat\./,
      ],
      [
        'without both',
        ['~*', '&*', '+@all', '-get', '-pexpireat'],
        /SETUSER … \+get \+pexpireat\./,
        { push: false },
      ],
    ])('%s', async (_, rules, message, options = {}) => {
      const error = await rejection(start(await userWith(...rules), options));
      expect(error.code).toBe('idempotency_store_misconfigured');
      expect(error.message).toMatch(message);
      expect(error.message).not.toContain('args');
    });
  });

  it('The start stops without WAIT, which waitReplicas requires', async () => {
    const replica = await startRedis({ args: ['--replicaof', `127.0.0.1 ${server.port}`] });
    afterTest(() => replica.stop());
    await until(async () => (await admin.info()).includes('state=online'));
    const url = await userWith('~*', '&*', '+@all', '-wait');
    const error = await rejection(start(url, { waitReplicas: { count: 1, timeout: 1_000 } }));
    expect(error.code).toBe('idempotency_store_misconfigured');
    expect(error.message).toMatch(/'wait' command/);
  });

  describe('The start warns, and operations run, for a user', () => {
    it('without the channels of the store', async () => {
      const url = await userWith('~idem:*', 'resetchannels', '+@all');
      const { log, codes, run } = await start(url);
      expect(codes()).toEqual(['redis_no_push']);
      expect(log.own[0]).toContain('&idem:* +publish +subscribe');
      expect(await run('one')).toBe('paid');
      expect((await start(url, { push: false })).codes()).toEqual([]);
    });
  });

  describe('The start warns once, and does not stop, where Redis', () => {
    it('is full', async () => {
      await admin.config('SET', 'maxmemory', '1');
      try {
        const { log, codes } = await start(server.url);
        expect(codes()).toEqual(['store_step_failed']);
        expect(log.own[0]).toMatch(/Raise maxmemory/);
      } finally {
        await admin.config('SET', 'maxmemory', '0');
      }
    });

    it('has too few replicas to write', async () => {
      await admin.config('SET', 'min-replicas-to-write', '1');
      try {
        expect((await start(server.url)).codes()).toEqual(['store_step_failed']);
      } finally {
        await admin.config('SET', 'min-replicas-to-write', '0');
      }
    });

    it('is a replica', async () => {
      await admin.replicaof('127.0.0.1', '1');
      try {
        expect((await start(server.url)).codes()).toEqual(['redis_is_replica']);
        // Where INFO does not tell, the steps do.
        const url = await userWith('~*', '&*', '+@all', '-info');
        const options = { connection: { enableReadyCheck: false } };
        expect((await start(url, options)).codes()).toEqual([
          'redis_not_checked',
          'store_step_failed',
        ]);
      } finally {
        await admin.replicaof('NO', 'ONE');
      }
    });

    it('has fewer replicas than waitReplicas requires', async () => {
      const options = { waitReplicas: { count: 1, timeout: 50 } };
      expect((await start(server.url, options)).codes()).toEqual(['redis_too_few_replicas']);
    });

    it('is a cluster without its slots', async () => {
      const node = await startRedis({ args: ['--cluster-enabled', 'yes', '--appendonly', 'yes'] });
      afterTest(() => node.stop());
      const { log, codes } = await start(node.url);
      expect(codes()).toEqual(['store_step_failed']);
      expect(log.own[0]).toContain('CLUSTERDOWN');
    });
  });

  describe('The start warns once, and the application serves later, where Redis', () => {
    const node = useServer(() => RedisNode.start());
    const served = async ({ run }: Awaited<ReturnType<typeof start>>, key: string) => {
      for (;;) {
        const result = await run(key).catch(() => undefined);
        if (result !== undefined) return result;
      }
    };

    it('does not reply', async () => {
      node.pause();
      try {
        const app = await start(node.url);
        expect(app.codes()).toEqual(['redis_unreachable']);
        node.resume();
        expect(await served(app, 'paused')).toBe('paid');
      } finally {
        node.resume();
      }
    });

    it('is not there', async () => {
      await node.kill();
      const app = await start(node.url);
      expect(app.codes()).toEqual(['redis_unreachable']);
      await node.start();
      expect(await served(app, 'gone')).toBe('paid');
    });
  });

  describe('What the start has tried', () => {
    it('is gone, and is in no metric, event or list of the reconciler', async () => {
      await admin.flushall();
      const { nest, events, store, log } = await start(server.url, {}, { breaker: true });
      // The note of the service, which is no trial.
      expect(await admin.keys('*')).toEqual([expect.stringMatching(`:${notePlace(0)}$`)]);
      const { records } = await store.abandoned({ overMs: 0, limit: 9, timeoutMs: 5_000 });
      expect(records).toEqual([]);
      expect(events).toEqual([]);
      expect(log.own).toEqual([]);
      expect(nest.get(IdempotencyMeter, { strict: false }).read().store.commands).toEqual([]);
    });

    it('does not collide with other starts', async () => {
      await admin.flushall();
      const apps = await Promise.all(Array.from({ length: 50 }, () => start(server.url)));
      expect(apps.flatMap(({ log }) => log.own)).toEqual([]);
      expect(await admin.keys('*')).toEqual([expect.stringMatching(`:${notePlace(0)}$`)]);
    });
  });
});

describe('At the start', () => {
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

  it('a durable server without eviction causes no warning', async () => {
    expect(await ownStore(server.url).open()).toEqual([]);
    expect(await redisStore({ client }).open()).toEqual([]);
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
    const [warning] = await redisStore({ client }).open();
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
    expect(await warningsOf(redisStore({ client: managed }))).toEqual(['redis_not_checked']);
  });

  it.each(['6.0.16', '5.0.7'])('Redis %s is too old and stops the start', async (version) => {
    const old = closeAfterTest(await startInfoServer(`redis_version:${version}\r\n`));
    const store = redisStore({ client: userClient(old.url, { protocol: 2 }) });
    await expect(store.open()).rejects.toThrow(StoreConfigurationError);
    await expect(store.open()).rejects.toThrow(version);
  });

  it.each(['6.2.0', '7.2.4', '8.0.1', '10.0.0'])('Redis %s is supported', async (version) => {
    const fresh = closeAfterTest(await startInfoServer(`redis_version:${version}\r\n`));
    const store = redisStore({ client: userClient(fresh.url, { protocol: 2 }) });
    expect(await store.open()).toEqual([]);
  });
});

describe('database', () => {
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
        () => ({ url: `${server.url}/99`, waitReplicas: { count: 1, timeout: 20 } }),
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
        imports: [
          IdempotencyModule.forRoot({
            service: SERVICE,
            store: redisStore({ url: `${server.url}/99` }),
          }),
        ],
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
        ownStore(`${server.url}/3`, { waitReplicas: { count: 1, timeout: 2_000 } }),
        redisStore({ client: userClient(`${server.url}/3`) }),
        redisStore({ client: selecting, waitReplicas: { count: 1, timeout: 2_000 } }),
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
      const store = ownStore(`${restartable.url}/3`, {
        connection: { maxRetriesPerRequest: null },
      });
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
        @Module({ imports: [IdempotencyModule.forRoot({ service: SERVICE, store })] })
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
      const imports = [IdempotencyModule.forRoot({ service: SERVICE, store })];
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
});
