import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Cluster } from 'ioredis';
import { RedisIdempotencyStore } from 'nestjs-idempotency/redis';
import {
  StoreConfigurationError,
  StoreUnavailableError,
  type AbandonedPage,
  type Begin,
  type IdempotencyStore,
} from '../../support/internals/core.js';
import { RedisCluster } from '../../support/redis/redis-cluster.js';
import { startRedis } from '../../support/redis/redis-server.js';
import {
  beginCommand,
  completeCommand,
  leaseOf,
  newRecordKey,
  TIMEOUT_MS,
} from '../../support/stores/commands.js';
import { ownStore, userClient } from './support/fixture.js';
import { until } from '../../support/waiting/until.js';
import { useRedisClient } from '../../support/redis/use-redis.js';
import { useServer } from '../../support/servers/use-server.js';

const ORIGIN = 'b3JkZXJz';
const LEASE_MS = 100;

const server = useServer(startRedis);
const admin = useRedisClient(server);

beforeEach(async () => {
  await admin.flushall();
});

/** A record whose lease ends in a moment, unless `leaseMs` is given. */
async function begun(store: IdempotencyStore, leaseMs = LEASE_MS) {
  const begin = beginCommand({ origin: ORIGIN, leaseMs });
  expect(await store.begin(begin)).toMatchObject({ kind: 'acquired' });
  return begin;
}

const longOver = async (store: IdempotencyStore, { recordKey }: Begin) =>
  until(async () => {
    const record = await store.inspect(recordKey, { timeoutMs: TIMEOUT_MS });
    return (record?.leaseLeftMs ?? 0) < 0;
  });

async function listed(store: IdempotencyStore, limit = 1_000) {
  const pages = [];
  let cursor: string | undefined;
  do {
    const page = await store.abandoned({ overMs: 0, limit, cursor, timeoutMs: TIMEOUT_MS });
    if (page === undefined) throw new Error('The store lists nothing.');
    pages.push(page.records);
    cursor = page.cursor;
  } while (cursor !== undefined);
  return { pages, keys: pages.flat().map(({ recordKey }) => recordKey) };
}

describe('Redis lists', () => {
  it('abandoned records, but no running ones and no other keys', async () => {
    const store = ownStore(server.url);
    const abandoned = await begun(store);
    await begun(store, 60_000);
    await admin.set(`other:1:${newRecordKey()}`, 'not a record');
    await admin.set('idem:2:x', 'not a record of this version');
    await admin.hset(`idem:1:${newRecordKey()}`, 'not', 'a string');
    await longOver(store, abandoned);
    expect((await listed(store)).keys).toEqual([abandoned.recordKey]);
  });

  it('only the records of its prefix, whatever characters it has', async () => {
    const prefixes = ['*', '[a-z]', 'x?', 'back\\slash', 'idem'];
    const stores = prefixes.map((keyPrefix) => ownStore(server.url, { keyPrefix }));
    const begins = [];
    for (const store of stores) begins.push(await begun(store));
    for (const [i, store] of stores.entries()) {
      await longOver(store, begins[i]!);
      expect((await listed(store)).keys).toEqual([begins[i]!.recordKey]);
    }
  });

  it('record keys without the prefix that a client of the user adds', async () => {
    const client = userClient(server.url, { keyPrefix: 'app{1}:' });
    const store = new RedisIdempotencyStore({ client });
    const abandoned = await begun(store);
    await longOver(store, abandoned);
    expect((await listed(store)).keys).toEqual([abandoned.recordKey]);
    expect(await admin.keys('*')).toEqual([`app{1}:idem:1:${abandoned.recordKey}`]);
  });

  it('many records in small pages', async () => {
    const store = ownStore(server.url);
    const begins = [];
    for (let i = 0; i < 300; i += 1) begins.push(await begun(store));
    await longOver(store, begins.at(-1)!);
    const { pages, keys } = await listed(store, 10);
    expect(new Set(keys)).toEqual(new Set(begins.map(({ recordKey }) => recordKey)));
    expect(pages.length).toBeGreaterThan(10);
    expect(Math.max(...pages.map(({ length }) => length))).toBeLessThan(50);
  });

  it('records without reading outcomes: only the first bytes of a large one', async () => {
    const store = ownStore(server.url);
    const begin = await begun(store, 60_000);
    const body = Buffer.alloc(4 * 2 ** 20);
    const { kind } = await store.complete(
      leaseOf(begin, 0),
      completeCommand({ outcome: { header: '{}', body } }),
    );
    expect(kind).toBe('ok');
    await admin.config('RESETSTAT');
    expect((await listed(store)).keys).toEqual([]);
    const stats = await admin.info('commandstats');
    expect(stats).toContain('cmdstat_getrange:calls=1,');
    expect(stats).not.toContain('cmdstat_get:');
  });

  it('nothing to a user without the permission, and names the missing one', async () => {
    const rules = ['on', '>limited', '~*', '&*', '+@all', '-scan'];
    await admin.call('ACL', 'SETUSER', 'limited', ...rules);
    const url = new URL(server.url);
    [url.username, url.password] = ['limited', 'limited'];
    const store = ownStore(url.href);
    const page = store.abandoned({ overMs: 0, limit: 10, timeoutMs: TIMEOUT_MS });
    await expect(page).rejects.toThrow(StoreConfigurationError);
    await expect(page).rejects.toThrow(/GETRANGE, GET, SET.*SCAN for the reconciler/);
  });

  it('nothing while it is down', async () => {
    const own = await startRedis();
    const store = ownStore(own.url);
    await own.stop();
    const page = store.abandoned({ overMs: 0, limit: 10, timeoutMs: 200 });
    await expect(page).rejects.toThrow(StoreUnavailableError);
  });
});

describe('A cluster lists', () => {
  const servers = useServer(() => RedisCluster.start({ replicas: 0 }));
  let cluster: Cluster;
  beforeEach(() => {
    cluster = new Cluster(servers.addresses);
  });
  afterEach(async () => {
    cluster.disconnect();
    for (const node of servers.nodes) await node.call('FLUSHALL');
  });

  async function spread(store: IdempotencyStore) {
    const begins = [];
    for (let i = 0; i < 60; i += 1) begins.push(await begun(store));
    for (const node of servers.nodes) expect(await node.call('DBSIZE')).toBeGreaterThan(0);
    await longOver(store, begins.at(-1)!);
    return begins.map(({ recordKey }) => recordKey);
  }

  it('the records of all its primaries', async () => {
    const store = new RedisIdempotencyStore({ client: cluster });
    const recordKeys = await spread(store);
    const { pages, keys } = await listed(store);
    expect(keys.sort()).toEqual(recordKeys.sort());
    expect(pages.length).toBeGreaterThanOrEqual(servers.nodes.length);
  });

  it('the records after the page of another process, and those of the next server when one is gone', async () => {
    const store = new RedisIdempotencyStore({ client: cluster });
    await spread(store);
    const command = { overMs: 0, limit: 1_000, timeoutMs: TIMEOUT_MS };
    const first = await store.abandoned(command);
    const other = new RedisIdempotencyStore({ client: cluster });
    const second = await other.abandoned({ ...command, cursor: first.cursor });
    const third = await store.abandoned({ ...command, cursor: second.cursor });
    const keysOf = ({ records }: AbandonedPage) => records.map(({ recordKey }) => recordKey).sort();
    expect(new Set([first, second, third].flatMap(keysOf)).size).toBe(60);
    // By the order of names, this server was between the second and the third; its cursor is meaningless to the third.
    const [, name = ''] = first.cursor?.split('@') ?? [];
    const gone = await other.abandoned({ ...command, cursor: `77@${name}-` });
    expect(keysOf(gone)).toEqual(keysOf(third));
    const last = await other.abandoned({ ...command, cursor: '77@~' });
    expect(last).toEqual({ records: [] });
  });
});
