import { afterAll, afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Test } from '@nestjs/testing';
import { Cluster } from 'ioredis';
import { IdempotencyStoreForNest, type NestStoredPayload } from 'nestjs-idempotency/nestjs';
import { memoryStore } from 'nestjs-idempotency/memory';
import { redisStore } from 'nestjs-idempotency/redis';
import { DelegatingStore, type Begin, type IdempotencyStore } from 'nestjs-idempotency/store';
import type { StoreUnderTest } from 'nestjs-idempotency/testing/store';
import { postgresServers } from '../support/postgres/postgres-servers.js';
import { RedisCluster } from '../support/redis/redis-cluster.js';
import { useRedis } from '../support/redis/use-redis.js';
import { useServer } from '../support/servers/use-server.js';
import { until } from '../support/waiting/until.js';
import { memoryUnderTest } from './memory-under-test.js';
import { PostgresHarness } from './postgres-under-test.js';
import { redisUnderTest } from './redis-under-test.js';

/**
 * What docs.nestjs.com says of a store (content/reliability/idempotency.md of 2026-11, package 0.0.3): an atomic take,
 * each write only by the owner of a live lock, and what has expired does not exist.
 */

const LOCK = 600;
const MARGIN = 100;
const KEPT = 3 * LOCK;
const DAYS_30 = 30 * 86_400_000;
const CALLERS = 32;

const cluster = useServer(() => RedisCluster.start({ replicas: 0 }));

/** The time of its servers, which nothing drives. */
const clusterUnderTest: StoreUnderTest = {
  name: 'RedisIdempotencyStore on a Cluster',
  create: () => {
    const client = new Cluster(cluster.addresses, { redisOptions: { commandTimeout: 5_000 } });
    const store = redisStore({ client });
    const now = async () => {
      const [seconds, us] = (await cluster.nodes[0]!.call('TIME')) as [string, string];
      return Number(seconds) * 1_000 + Number(us) / 1_000;
    };
    const step = async (ms: number) => {
      const end = (await now()) + ms;
      await until(async () => (await now()) >= end);
    };
    return {
      store,
      clock: { now, step },
      dispose: async () => {
        await store.close();
        client.disconnect();
      },
    };
  },
};

const postgres = postgresServers.map((version) => new PostgresHarness(version));
afterAll(() => Promise.all(postgres.map((harness) => harness.close())));

const STORES = [
  memoryUnderTest,
  redisUnderTest,
  clusterUnderTest,
  ...postgres.map((each) => each.underTest),
];

const RESPONSE = { status: 201, headers: { location: '/charges/1' }, body: { id: 'ch_1' } };
const ACQUIRED = { state: 'acquired' };
const inFlight = (fingerprint: string) => ({ state: 'in-flight', fingerprint });
const completed = (fingerprint: string, response: object = RESPONSE) => ({
  state: 'completed',
  fingerprint,
  response,
});

describe.each(STORES.map((store) => [store.name, store] as const))(
  'For @nestjs/idempotency, %s',
  (_, under) => {
    let harness: Awaited<ReturnType<StoreUnderTest['create']>>;
    let store: IdempotencyStoreForNest;
    /** Another process. */
    let other: IdempotencyStoreForNest;
    let key: string;
    let tests = 0;
    const pass = (ms: number) => harness.clock!.step(ms);
    const acquire = (owner: string, fingerprint = `of ${owner}`, on = store, ttl = LOCK) =>
      on.acquire(key, owner, fingerprint, ttl);

    beforeEach(async () => {
      harness = await under.create();
      store = new IdempotencyStoreForNest(harness.store);
      other = new IdempotencyStoreForNest(harness.store);
      tests += 1;
      key = `usr_1:${under.name} ${String(tests)}`;
    });
    afterEach(() => harness.dispose?.());

    it('takes a free key once, and tells others the fingerprint that holds it', async () => {
      expect(await acquire('a')).toEqual(ACQUIRED);
      expect(await acquire('b')).toEqual(inFlight('of a'));
      expect(await acquire('b', 'of b', other)).toEqual(inFlight('of a'));
      expect(await acquire('b', 'of a')).toEqual(inFlight('of a'));
      // The owner, too: it holds the lock already.
      expect(await acquire('a')).toEqual(inFlight('of a'));
      expect(await store.complete(key, 'a', RESPONSE, KEPT)).toBe(true);
    });

    it('stores what the owner completes, and nobody else', async () => {
      await acquire('a');
      expect(await store.complete(key, 'b', RESPONSE, KEPT)).toBe(false);
      expect(await other.complete(key, 'b', RESPONSE, KEPT)).toBe(false);
      expect(await acquire('c')).toEqual(inFlight('of a'));
      expect(await store.complete(key, 'a', RESPONSE, KEPT)).toBe(true);
      for (const on of [store, other]) {
        expect(await acquire('c', 'of a', on)).toEqual(completed('of a'));
        expect(await acquire('c', 'of c', on)).toEqual(completed('of a'));
      }
    });

    it('changes nothing of what is completed', async () => {
      await acquire('a');
      await store.complete(key, 'a', RESPONSE, KEPT);
      expect(await store.complete(key, 'a', { ...RESPONSE, status: 500 }, KEPT)).toBe(false);
      expect(await store.release(key, 'a')).toBe(false);
      expect(await store.extend(key, 'a', LOCK)).toBe(false);
      await pass(KEPT - MARGIN);
      expect(await acquire('b')).toEqual(completed('of a'));
      await pass(2 * MARGIN);
      expect(await acquire('b')).toEqual(ACQUIRED);
      expect(await acquire('c')).toEqual(inFlight('of b'));
    });

    it('frees what the owner releases, and nobody else', async () => {
      await acquire('a');
      expect(await store.release(key, 'b')).toBe(false);
      expect(await other.release(key, 'a')).toBe(false);
      expect(await store.release(key, 'a')).toBe(true);
      expect(await store.release(key, 'a')).toBe(false);
      expect(await acquire('b')).toEqual(ACQUIRED);
      expect(await acquire('c')).toEqual(inFlight('of b'));
    });

    it('changes nothing of a key without a record', async () => {
      expect(await store.complete(key, 'a', RESPONSE, KEPT)).toBe(false);
      expect(await store.extend(key, 'a', LOCK)).toBe(false);
      expect(await store.release(key, 'a')).toBe(false);
      expect(await acquire('a')).toEqual(ACQUIRED);
    });

    it('renews the lock of its owner, and of nobody else', async () => {
      await acquire('a');
      await pass(LOCK - MARGIN);
      expect(await store.extend(key, 'b', LOCK)).toBe(false);
      expect(await store.extend(key, 'a', LOCK)).toBe(true);
      await pass(LOCK - MARGIN);
      expect(await acquire('b')).toEqual(inFlight('of a'));
      await pass(2 * MARGIN);
      expect(await store.extend(key, 'a', LOCK)).toBe(false);
      expect(await acquire('b')).toEqual(ACQUIRED);
    });

    it('an expired lock does not exist: whatever its content, another owner takes the key', async () => {
      await acquire('a');
      await pass(LOCK + MARGIN);
      expect(await store.complete(key, 'a', RESPONSE, KEPT)).toBe(false);
      await acquire('a2');
      await pass(LOCK + MARGIN);
      expect(await store.release(key, 'a2')).toBe(false);
      expect(await acquire('b', 'of b', other)).toEqual(ACQUIRED);
      for (const owner of ['a', 'a2']) {
        expect(await store.extend(key, owner, LOCK)).toBe(false);
        expect(await store.complete(key, owner, RESPONSE, KEPT)).toBe(false);
        expect(await store.release(key, owner)).toBe(false);
      }
      expect(await acquire('c')).toEqual(inFlight('of b'));
      expect(await other.complete(key, 'b', RESPONSE, KEPT)).toBe(true);
      expect(await acquire('c')).toEqual(completed('of b'));
    });

    it('a late owner stores nothing where the one after it has released the key', async () => {
      await acquire('late');
      await pass(LOCK + MARGIN);
      await acquire('b', 'of b', other);
      await other.release(key, 'b');
      expect(await store.complete(key, 'late', RESPONSE, KEPT)).toBe(false);
      expect(await acquire('c')).toEqual(ACQUIRED);
    });

    it('takes weeks', async () => {
      expect(await acquire('a', 'of a', store, DAYS_30)).toEqual(ACQUIRED);
      expect(await store.extend(key, 'a', DAYS_30)).toBe(true);
      expect(await store.complete(key, 'a', RESPONSE, DAYS_30)).toBe(true);
      await pass(KEPT);
      expect(await acquire('b')).toEqual(completed('of a'));
    });

    it('takes a fraction of a millisecond, and names the option whose time is none', async () => {
      expect(await acquire('a', 'of a', store, LOCK + 0.5)).toEqual(ACQUIRED);
      expect(await store.extend(key, 'a', LOCK + 0.5)).toBe(true);
      for (const none of [0, -1, Number.NaN, Infinity]) {
        await expect(acquire('b', 'of b', store, none)).rejects.toThrow('"lockTtl" must be');
        await expect(store.extend(key, 'a', none)).rejects.toThrow('"lockTtl" must be');
        await expect(store.complete(key, 'a', RESPONSE, none)).rejects.toThrow('"ttl" must be');
      }
      expect(await store.complete(key, 'a', RESPONSE, KEPT + 0.5)).toBe(true);
      expect(await acquire('b')).toEqual(completed('of a'));
    });

    it('rejects a payload that is no JSON, and still holds the lock', async () => {
      await acquire('a');
      const unstorable = { ...RESPONSE, body: 1n } as NestStoredPayload;
      const completing = store
        .complete(key, 'a', unstorable, KEPT)
        .catch((error: unknown) => error);
      expect(await completing).toBeInstanceOf(TypeError);
      expect(await acquire('b')).toEqual(inFlight('of a'));
      expect(await store.release(key, 'a')).toBe(true);
    });

    it('keeps similar and long keys, and fingerprints, apart', async () => {
      const long = 'x'.repeat(4_000);
      const texts = [
        'k',
        'K',
        ' k',
        'k ',
        'k\t',
        'a:k',
        'a%3Ak',
        'ключ',
        'é',
        'e\u0301',
        '-',
        '~',
        long,
        `${long}x`,
        '\ud800',
        '\ud801',
        '0'.repeat(64),
        'F'.repeat(64),
        'f'.repeat(64),
      ];
      const named = texts.map((text) => `${key} ${text}`);
      for (const [index, each] of named.entries()) {
        expect(await store.acquire(each, 'a', texts[index]!.toWellFormed(), LOCK)).toEqual(
          ACQUIRED,
        );
      }
      for (const [index, each] of named.entries()) {
        expect(await other.acquire(each, 'b', 'another', LOCK)).toEqual(
          inFlight(texts[index]!.toWellFormed()),
        );
      }
    });

    it('returns each payload as it was, and shares none', async () => {
      const payloads = [
        {
          ...RESPONSE,
          headers: { link: ['a', 'b'] },
          error: 'http',
          body: {
            text: `O'Reilly \0 \\ " 💳`,
            at: { __idempotencyType: 'Date', value: '2026-09-22T12:00:00.000Z' },
            numbers: [0, -1, 1.5, Number.MAX_SAFE_INTEGER],
            empty: {},
          },
        },
        { status: 200, headers: {}, body: null },
        { status: 204, headers: {}, body: '' },
        { status: 200, headers: {}, body: 'z'.repeat(300_000) },
        { sealed: `v1.key.${'A'.repeat(20_000)}.${'B'.repeat(22)}` },
      ];
      for (const [index, payload] of payloads.entries()) {
        const each = `${key} ${String(index)}`;
        const given = structuredClone(payload) as NestStoredPayload;
        await store.acquire(each, 'a', 'f', LOCK);
        expect(await store.complete(each, 'a', given, KEPT)).toBe(true);
        Object.assign(given, { status: 1 });
        for (const owner of ['b', 'c']) {
          const found = await store.acquire(each, owner, 'f', LOCK);
          expect(found).toEqual(completed('f', payload));
          if (found.state === 'completed') Object.assign(found.response, { status: 2 });
        }
      }
    });

    describe(`of ${String(CALLERS)} callers at once`, () => {
      const owners = Array.from({ length: CALLERS }, (_each, index) => `owner ${String(index)}`);
      const race = () =>
        Promise.all(
          owners.map((owner, index) =>
            acquire(owner, `of ${owner}`, index % 2 === 0 ? store : other),
          ),
        );
      const expectOneWinner = (results: Awaited<ReturnType<typeof race>>) => {
        const winners = owners.filter((_each, index) => results[index]!.state === 'acquired');
        expect(winners).toHaveLength(1);
        const [winner = ''] = winners;
        const losers = results.filter(({ state }) => state !== 'acquired');
        expect(losers).toEqual(losers.map(() => inFlight(`of ${winner}`)));
        return winner;
      };

      it('one takes a free key', async () => {
        expectOneWinner(await race());
      });

      it('one takes an expired lock, and its last owner has lost it', async () => {
        await acquire('dead');
        await pass(LOCK + MARGIN);
        const winner = expectOneWinner(await race());
        expect(await store.complete(key, 'dead', RESPONSE, KEPT)).toBe(false);
        const on = owners.indexOf(winner) % 2 === 0 ? store : other;
        expect(await on.complete(key, winner, RESPONSE, KEPT)).toBe(true);
      });

      it('one takes the key of an expired record', async () => {
        await acquire('first');
        await store.complete(key, 'first', RESPONSE, KEPT);
        await pass(KEPT + MARGIN);
        expectOneWinner(await race());
      });

      it('none gets a key while it is completed: its lock, or its response', async () => {
        await acquire('first');
        const [ended, results] = await Promise.all([
          store.complete(key, 'first', RESPONSE, KEPT),
          race(),
        ]);
        expect(ended).toBe(true);
        for (const result of results)
          expect([inFlight('of first'), completed('of first')]).toContainEqual(result);
      });

      it('at most one gets a key while it is released', async () => {
        await acquire('first');
        const [ended, results] = await Promise.all([store.release(key, 'first'), race()]);
        expect(ended).toBe(true);
        expect(results.filter(({ state }) => state === 'acquired').length).toBeLessThanOrEqual(1);
        for (const result of results) expect(result.state).not.toBe('completed');
      });

      it('one ends a lock, by whichever of complete and release comes first', async () => {
        await acquire('first');
        const ends = await Promise.all([
          ...owners.map((owner) => store.complete(key, owner, RESPONSE, KEPT)),
          store.release(key, 'first'),
          ...owners.map((owner) => other.release(key, owner)),
        ]);
        expect(ends.filter(Boolean)).toHaveLength(1);
      });
    });
  },
);

describe('As a provider beside the module', () => {
  const redis = useRedis();

  /** The part of the module that registers stores. */
  class IdempotencyStorage {
    source: unknown;
    registerSource(source: unknown): void {
      this.source = source;
    }
  }

  const start = (newStore: () => IdempotencyStore) =>
    Test.createTestingModule({
      providers: [
        IdempotencyStorage,
        {
          provide: IdempotencyStoreForNest,
          useFactory: (storage: IdempotencyStorage) =>
            new IdempotencyStoreForNest(newStore(), storage),
          inject: [IdempotencyStorage],
        },
      ],
    })
      .compile()
      .then((module) => module.init());

  it('registers itself, opens its store, and closes it', async () => {
    const app = await start(() => redisStore({ url: redis.url }));
    const store = app.get(IdempotencyStoreForNest);
    expect(app.get(IdempotencyStorage).source).toBe(store);
    expect(await store.acquire('key', 'a', 'f', LOCK)).toEqual(ACQUIRED);
    await app.close();
    await expect(store.acquire('other', 'a', 'f', LOCK)).rejects.toMatchObject({
      code: 'idempotency_store_unavailable',
    });
  });

  it('stops the start where its store can never work, and leaves no connection', async () => {
    const url = `redis://${new URL(redis.url).host}/99`;
    await expect(start(() => redisStore({ url }))).rejects.toMatchObject({
      code: 'idempotency_store_misconfigured',
    });
  });

  it.each([
    ['no store', undefined, {}, /needs a store of nestjs-idempotency/],
    ['a limit without sense', memoryStore(), { commandTimeout: 0 }, /"commandTimeout"/],
    ['an unknown option', memoryStore(), { timeout: 1 }, /"timeout"/],
  ])('refuses %s', (_, store, options, message) => {
    expect(() => new IdempotencyStoreForNest(store as never, undefined, options as never)).toThrow(
      message,
    );
  });

  it('releases what it may have got where the reply of the store never came', async () => {
    const memory = memoryStore();
    const lossy = new (class extends DelegatingStore {
      isLost = true;
      override async begin(command: Begin) {
        const reply = await super.begin(command);
        if (this.isLost) throw new Error('the reply was lost');
        return reply;
      }
    })(memory);
    const store = new IdempotencyStoreForNest(lossy);
    await expect(store.acquire('key', 'a', 'f', LOCK)).rejects.toThrow('the reply was lost');
    expect(await store.release('key', 'a')).toBe(true);
    lossy.isLost = false;
    expect(await store.acquire('key', 'b', 'f', LOCK)).toEqual(ACQUIRED);
  });
});
