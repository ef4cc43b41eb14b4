import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { Cluster, Redis } from 'ioredis';
import {
  IdempotencyOptionsError,
  StoreUnavailableError,
  type Finding,
  type IdempotencyStore,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { fromPg } from 'nestjs-idempotency/pg';
import { migrate, postgresStore } from 'nestjs-idempotency/postgres';
import { redisStore } from 'nestjs-idempotency/redis';
import {
  ConditionalStore,
  DelegatingStore,
  type Begin,
  type BeginReply,
} from 'nestjs-idempotency/store';
import { DocumentStore } from '../../../examples/stores/document-store.js';
import { RedisIdempotencyStore } from '../../support/internals/redis.js';
import { afterTest } from '../../support/jest/after-test.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { projectRoot } from '../../support/project-root.js';
import { RedisCluster } from '../../support/redis/redis-cluster.js';
import { ToyLink } from '../../support/redis/toy-link.js';
import { useRedis, useRedisClient } from '../../support/redis/use-redis.js';
import { useServer } from '../../support/servers/use-server.js';
import { acquire, beginCommand } from '../../support/stores/commands.js';
import { BreakerUnderTest } from '../../unit/resilience/breaker-under-test.js';
import { userPool } from '../postgres/support/fixture.js';

const EVERY_STORE = ['steps', 'push', 'services', 'latency'];
const OF_REDIS = ['version', 'role', 'eviction', 'memory', 'persistence'];
const OF_POSTGRES = [
  ...['connection', 'version', 'role', 'connections', 'durability', 'isolation', 'migrations'],
  ...['rights', ...EVERY_STORE, 'clock', 'autovacuum', 'deletion'],
];
/** The servers of the tests are not durable; a busy machine can fail the others. */
const EXPECTED = ['persistence', 'durability', 'latency', 'clock'];

async function diagnosed(store: IdempotencyStore) {
  const findings: Finding[] = [];
  for await (const finding of store.diagnose()) findings.push(finding);
  const wrong = findings.filter(
    ({ check, verdict }) => verdict !== 'ok' && !EXPECTED.includes(check),
  );
  return {
    checks: findings.map(({ check }) => check),
    complaints: Object.fromEntries(wrong.map(({ check, verdict }) => [check, verdict])),
    messageOf: (check: string) => findings.find((finding) => finding.check === check)?.message,
  };
}

/** A store that was not opened is closed by close(): from then on it sends nothing. */
async function expectClosable(store: IdempotencyStore) {
  await acquire(store);
  await store.close();
  await expect(store.begin(beginCommand())).rejects.toThrow('closed');
}

/** As an application: it has opened the store, and goes on. */
async function expectUndisturbed(store: IdempotencyStore) {
  await store.open();
  expect((await diagnosed(store)).complaints).toEqual({});
  await acquire(store);
  await expectClosable(store);
}

describe('The diagnosis of any store', () => {
  const postgres = usePostgres();

  it('checks on memory what every store has', async () => {
    const store = memoryStore();
    const { checks, complaints } = await diagnosed(store);
    expect(checks).toEqual(EVERY_STORE);
    expect(complaints).toEqual({});
    await store.close();
  });

  it('checks the same of one that an application has written', async () => {
    const pool = userPool(await postgres.newDatabase());
    await pool.query(readFileSync(join(projectRoot, 'examples/stores/documents.sql'), 'utf8'));
    const { checks, complaints, messageOf } = await diagnosed(new DocumentStore(pool));
    expect(checks).toEqual(EVERY_STORE);
    expect(complaints).toEqual({ push: 'warning' });
    expect(messageOf('push')).toContain('Implement watch() of the store.');
  });

  it('says what a store rejects, and goes no further', async () => {
    class LostStore extends ConditionalStore<number> {
      load = () => Promise.reject(new StoreUnavailableError('The records are lost.'));
      saveIf = () => Promise.resolve(false);
      close = () => Promise.resolve();
    }
    const { checks, complaints, messageOf } = await diagnosed(new LostStore());
    expect(checks).toEqual(['steps']);
    expect(complaints).toEqual({ steps: 'error' });
    expect(messageOf('steps')).toBe('The records are lost.');
  });

  it('is that of the store within its wrappers, which notice nothing', async () => {
    let begins = 0;
    class CountingStore extends DelegatingStore {
      override begin(command: Begin): Promise<BeginReply> {
        begins += 1;
        return super.begin(command);
      }
    }
    const breaker = new BreakerUnderTest();
    const { checks, complaints } = await diagnosed(new CountingStore(breaker.store));
    expect(checks).toEqual(EVERY_STORE);
    expect(complaints).toEqual({});
    expect(begins).toBe(0);
    expect(breaker.reported).toEqual([]);
    await breaker.store.close();
  });

  it.each([
    ['Redis', () => redisStore({ url: 'redis://127.0.0.1/shop' })],
    ['Sentinels', () => redisStore({ connection: { db: -1 } })],
  ])('rejects an option of %s that is invalid', async (_, open) => {
    await expect(diagnosed(open())).rejects.toThrow(IdempotencyOptionsError);
  });
});

describe('The diagnosis of a store on Redis', () => {
  const redis = useRedis();
  const admin = useRedisClient(redis);
  const cluster = useServer(() => RedisCluster.start({ replicas: 0 }));
  const checksOf = (...connected: string[]) => [
    ...[...connected, 'rights', ...EVERY_STORE, 'clock'],
  ];

  function clientOf(options: object = {}): Redis {
    const client = new Redis(redis.url, options);
    afterTest(() => client.disconnect());
    return client;
  }

  it('goes over the client of an application, with its prefix and its batches', async () => {
    const client = clientOf({ keyPrefix: 'app:', enableAutoPipelining: true });
    const store = redisStore({ client });
    const { checks, complaints, messageOf } = await diagnosed(store);
    expect(checks).toEqual(checksOf('connection', ...OF_REDIS));
    expect(complaints).toEqual({});
    expect(messageOf('connection')).toBe(`Connected to ${new URL(redis.url).host} without TLS.`);
    await expectClosable(store);
    await expectUndisturbed(redisStore({ client }));
    expect(await client.ping()).toBe('PONG');
  });

  it('goes over the connection of the store, and leaves neither record nor channel', async () => {
    const store = redisStore({ url: redis.url, keyPrefix: 'idem-diagnosed' });
    await store.open();
    expect((await diagnosed(store)).complaints).toEqual({});
    expect(await admin.keys('idem-diagnosed:*')).toEqual([]);
    expect(await admin.call('PUBSUB', 'CHANNELS', 'idem-diagnosed:*')).toEqual([]);
    await expectClosable(store);
    await expectUndisturbed(redisStore({ url: redis.url }));
  });

  it('ends with its consumer, and leaves no record', async () => {
    const store = redisStore({ url: redis.url, keyPrefix: 'idem-left' });
    for await (const { check } of store.diagnose()) if (check === 'steps') break;
    expect(await admin.keys('idem-left:*')).toEqual([]);
    expect(await admin.call('PUBSUB', 'CHANNELS', 'idem-left:*')).toEqual([]);
    await store.close();
  });

  it('says that too few replicas confirm, and that push is off', async () => {
    const waitReplicas = { count: 1, timeout: '50ms' } as const;
    const store = redisStore({ url: redis.url, push: false, waitReplicas });
    const { complaints, messageOf } = await diagnosed(store);
    expect(complaints).toEqual({ role: 'error', steps: 'error' });
    expect(messageOf('role')).toContain('waitReplicas requires 1 replicas');
    await store.close();
    const silent = redisStore({ url: redis.url, push: false });
    expect((await diagnosed(silent)).messageOf('push')).toContain('The option "push" is false.');
    await silent.close();
  });

  it('says of a closed store that it is closed', async () => {
    const store = redisStore({ url: redis.url });
    await store.open();
    await store.close();
    const { complaints, messageOf } = await diagnosed(store);
    expect(complaints).toEqual({ connection: 'error' });
    expect(messageOf('connection')).toContain('the connection is closed');
  });

  it('says what a client that asks no server leaves out', async () => {
    const store = new RedisIdempotencyStore({ link: () => new ToyLink(redis.port) });
    const { checks, complaints, messageOf } = await diagnosed(store);
    expect(checks).toEqual(['configuration', 'persistence', 'rights', ...EVERY_STORE]);
    expect(complaints).toEqual({ configuration: 'warning' });
    expect(messageOf('configuration')).toContain('does not ask servers one by one');
    await store.close();
  });

  it('asks each primary of a Cluster', async () => {
    const client = new Cluster(cluster.addresses, { keyPrefix: 'app:' });
    afterTest(() => client.disconnect());
    const store = redisStore({ client });
    const { checks, complaints, messageOf } = await diagnosed(store);
    expect(checks).toEqual([
      ...checksOf('cluster', 'connection', ...OF_REDIS, ...OF_REDIS, ...OF_REDIS),
      ...['clock', 'clock'],
    ]);
    expect(complaints).toEqual({});
    expect(messageOf('connection')).toBe('Connected to the 3 primaries of the cluster.');
    expect(messageOf('version')).toMatch(/^127\.0\.0\.1:\d+: Redis /);
    await expectClosable(store);
    await expectUndisturbed(redisStore({ client }));
  });

  it('says that a URL reaches one server of a cluster', async () => {
    const store = redisStore({ url: cluster.nodes[0]!.url });
    const { checks, messageOf } = await diagnosed(store);
    expect(checks).toEqual(['cluster', 'connection']);
    expect(messageOf('connection')).toContain('Pass a Cluster of ioredis as "client"');
    await store.close();
  });
});

describe('The diagnosis of a store on PostgreSQL', () => {
  const postgres = usePostgres();

  async function migrated(): Promise<string> {
    const url = await postgres.newDatabase();
    await migrate({ url });
    return url;
  }

  it('goes over the pool of an application, and returns its connections', async () => {
    const url = await migrated();
    const pool = userPool(url, { max: 2 });
    const store = postgresStore({ executor: fromPg(pool) });
    const { checks, complaints, messageOf } = await diagnosed(store);
    expect(checks).toEqual(OF_POSTGRES);
    expect(complaints).toEqual({ push: 'warning' });
    const { host, pathname } = new URL(url);
    expect(messageOf('connection')).toBe(`Connected to ${host}, database "${pathname.slice(1)}".`);
    expect(pool.idleCount).toBe(pool.totalCount);
    await expectClosable(store);
    expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
  });

  it('goes over the pool of the store', async () => {
    const url = await migrated();
    const store = postgresStore({ url });
    expect((await diagnosed(store)).complaints).toEqual({});
    await expectClosable(store);
    expect((await diagnosed(store)).messageOf('connection')).toBe('the store is closed');
    await expectUndisturbed(postgresStore({ url }));
  });

  it('asks for DELETE only where the store deletes', async () => {
    const { messageOf } = await diagnosed(
      postgresStore({ executor: fromPg(userPool(await migrated())), deleteExpired: false }),
    );
    expect(messageOf('rights')).toMatch(/^The user may SELECT, INSERT, UPDATE on /);
  });
});
