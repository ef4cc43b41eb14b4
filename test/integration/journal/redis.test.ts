import { beforeEach, describe, expect, it } from '@jest/globals';
import { Cluster, Redis } from 'ioredis';
import { IdempotencyMeter, IdempotencyService } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';
import { afterTest } from '../../support/jest/after-test.js';
import { isTestAll } from '../../support/jest/test-all.js';
import { newProbeKey, nodeClock, notePlace } from '../../support/internals/core.js';
import { loadScripts } from '../../support/internals/redis.js';
import { callingApp } from '../../support/nest/calling-app.js';
import { startRedis } from '../../support/redis/redis-server.js';
import { useServer } from '../../support/servers/use-server.js';
import {
  acquire,
  beginCommand,
  completeCommand,
  leaseOf,
  releaseCommand,
} from '../../support/stores/commands.js';
import { RedisProxy } from '../../support/redis/proxy/redis-proxy.js';
import { useRedis, useRedisClient } from '../../support/redis/use-redis.js';
import { diagnose } from '../cli/support/diagnosis.js';
import { differences, histories, type Entry } from './histories.js';

const server = useRedis();
const client = useRedisClient(server);
beforeEach(() => client.flushall());

const KEYS = isTestAll ? 2_000 : 150;
const JOURNAL = { service: 'shop', version: '1.4.2', maxLength: 1_000_000 };

function storeOn(url: string, journal: object = JOURNAL) {
  const store = redisStore({
    url,
    onConnectionError: () => undefined,
    journal: { ...JOURNAL, ...journal },
  });
  afterTest(() => store.close());
  return store;
}

const STATES: Readonly<Record<string, string>> = {
  p: 'in_progress',
  c: 'completed',
  f: 'failed',
  r: 'released',
};

interface StreamEntry extends Entry {
  readonly at: number;
  readonly by: string;
}

async function entriesOf(redis: Redis): Promise<StreamEntry[]> {
  const all = await redis.xrange('idem:journal', '-', '+');
  return all.map(([id, words]) => {
    expect([words[0], words[2], words[4], words[6]]).toEqual(['kind', 'key', 'record', 'by']);
    const [, kind = '', , key = '', , record = '', , by = ''] = words;
    const [, state = '', fence, , attempt, , fingerprint = '', note = ''] =
      /^2(\w)(\d+) (\S+) (\d+) (\d+) (\S+) ?(\S*)$/.exec(record) ?? [];
    return {
      ...{ at: Number(id.split('-', 1)[0]), key, kind, state: STATES[state] ?? '', by },
      ...{ fence: Number(fence), attempt: Number(attempt), fingerprint, note },
    };
  });
}

describe('The journal in a stream of Redis', () => {
  it('has exactly one entry for each change, though commands are sent twice and replies are lost', async () => {
    const proxy = await RedisProxy.start(Number(new URL(server.url).port), {
      scripts: loadScripts(undefined, JOURNAL.maxLength),
    });
    afterTest(() => proxy.stop());
    const before = Date.now();
    const store = storeOn(proxy.url);
    await store.open();
    let pieces = 0;
    proxy.loseReplies(() => {
      pieces += 1;
      return pieces % 23 === 0;
    });
    const expected = await histories(store, KEYS, 1);
    const found = await entriesOf(client);
    expect(proxy.lostReplies).toBeGreaterThan(2);
    expect(differences(found, expected)).toEqual({ extra: [], missing: [] });
    expect(found).toHaveLength(expected.length);
    expect(new Set(expected.map(({ kind }) => kind)).size).toBe(6);
    expect(new Set(found.map(({ by }) => by))).toEqual(new Set(['shop 1.4.2']));
    expect(found.every(({ at }) => at >= before - 1 && at <= Date.now() + 1)).toBe(true);
    expect(store.missedEntries).toBe(0);
  }, 600_000);

  it('has no entry of a probe, nor of the name of a service', async () => {
    const store = storeOn(server.url);
    for (const recordKey of [newProbeKey(nodeClock), notePlace(0)]) {
      const begin = beginCommand({ recordKey });
      const reply = await store.begin(begin);
      await store.complete(leaseOf(begin, 'fence' in reply ? reply.fence : 0), completeCommand());
    }
    expect(await entriesOf(client)).toEqual([]);
    await acquire(store);
    expect(await entriesOf(client)).toHaveLength(1);
    expect(store.missedEntries).toBe(0);
  });

  it('keeps about as many entries as its length', async () => {
    const store = storeOn(server.url, { maxLength: 1_000 });
    for (let sent = 0; sent < 1_500; sent += 50) {
      await Promise.all(Array.from({ length: 50 }, () => acquire(store)));
    }
    const length = await client.xlen('idem:journal');
    expect(length).toBeGreaterThanOrEqual(1_000);
    expect(length).toBeLessThan(1_200);
  });

  it('has an entry of a restored outcome, once', async () => {
    const store = storeOn(server.url);
    const lease = await acquire(store);
    await client.del(`idem:1:${lease.recordKey}`);
    const command = completeCommand({ whenGone: 'restore' });
    expect((await store.complete(lease, command)).kind).toBe('restored');
    expect((await store.complete(lease, command)).kind).toBe('already');
    expect((await entriesOf(client)).map(({ kind }) => kind)).toEqual(['acquired', 'restored']);
  });

  describe('An outcome is stored', () => {
    const own = useServer(() => startRedis());
    const admin = useRedisClient(own);
    beforeEach(async () => {
      await admin.config('SET', 'maxmemory', '0');
      await admin.flushall();
    });

    it('with its entry, where there is no memory left; no begin is', async () => {
      const store = storeOn(own.url);
      await store.open();
      const [small, large, released] = await Promise.all([1, 2, 3].map(() => acquire(store)));
      await admin.config('SET', 'maxmemory', '1', 'maxmemory-policy', 'noeviction');
      const body = Buffer.alloc(50_000);
      const outcome = { header: '{}', body };
      expect((await store.complete(small!, completeCommand())).kind).toBe('ok');
      expect((await store.complete(large!, completeCommand({ outcome }))).kind).toBe('ok');
      expect((await store.release(released!, releaseCommand())).kind).toBe('ok');
      await expect(store.begin(beginCommand())).rejects.toThrow('maxmemory');
      await admin.config('SET', 'maxmemory', '0');
      const kinds = (await entriesOf(admin)).map(({ kind }) => kind);
      expect(kinds).toEqual([...Array(3).fill('acquired'), 'completed', 'completed', 'released']);
      expect(store.missedEntries).toBe(0);
    });

    it('though its entry cannot be: that is counted, and told each time', async () => {
      const store = storeOn(own.url);
      const told: string[] = [];
      const entryMissed = (recordKey: string, reason: string) =>
        told.push(`${recordKey} ${reason}`);
      const observer = { replyMismatched: () => undefined, warned: () => undefined, entryMissed };
      await store.open(observer);
      const leases = await Promise.all(Array.from({ length: 3 }, () => acquire(store)));
      await admin.set('idem:journal', 'no stream');
      const body = Buffer.alloc(50_000);
      const outcome = { header: '{}', body };
      expect((await store.complete(leases[0]!, completeCommand())).kind).toBe('ok');
      expect((await store.complete(leases[1]!, completeCommand({ outcome }))).kind).toBe('ok');
      expect((await store.release(leases[2]!, releaseCommand())).kind).toBe('ok');
      expect(told).toEqual(leases.map(({ recordKey }) => `${recordKey} WRONGTYPE`));
      expect(store.missedEntries).toBe(3);
      const states = leases.map(({ recordKey }) => store.inspect(recordKey, { timeoutMs: 2_000 }));
      expect((await Promise.all(states)).map((record) => record?.state)).toEqual([
        'completed',
        'completed',
        'released',
      ]);
      await admin.del('idem:journal');
      const again = await acquire(store);
      expect((await entriesOf(admin)).map(({ key }) => key)).toEqual([again.recordKey]);
      await store.close(observer);
    });

    it('though its entry cannot be: an application counts that, and logs the first one', async () => {
      const store = storeOn(own.url);
      const { nest, events, log } = await callingApp({}, { store, service: JOURNAL.service });
      afterTest(() => nest.close());
      const service = nest.get(IdempotencyService, { strict: false });
      const pay = (key: string) =>
        service.run({ operation: 'pay', key, scope: 'alice' }, () => 'paid');
      await pay('first');
      const before = await entriesOf(admin);
      expect(before.map(({ kind }) => kind)).toEqual(['acquired', 'completed']);
      await admin.set('idem:journal', 'no stream');
      expect(await pay('second')).toBe('paid');
      const missed = events.filter(({ type }) => type === 'journal_incomplete');
      expect(missed).toMatchObject(Array(2).fill({ reason: 'WRONGTYPE' }));
      const lines = log.own.filter((line) => line.includes('[journal_incomplete]'));
      expect(lines).toEqual([expect.stringContaining(missed[0]!.recordKey!)]);
      expect(nest.get(IdempotencyMeter, { strict: false }).read().store.missedEntries).toBe(2);
    });

    it.each([
      [['+@all', '-xadd'], /may not add entries to the journal .*\+xadd ~idem:journal\*/],
      [['+@all', '-type'], undefined],
    ])(
      'by a user with the rules %j, or the start stops with the remedy',
      async (rules, expected) => {
        await admin.call('ACL', 'SETUSER', 'app', 'reset', 'on', '>pw', '~idem:*', '&*', ...rules);
        const store = storeOn(`redis://app:pw@127.0.0.1:${own.port}`);
        const starting: unknown = await store.open().catch((error: unknown) => error);
        if (expected === undefined) expect(starting).toBeInstanceOf(Array);
        else expect(starting).toMatchObject({ message: expect.stringMatching(expected) });
        if (expected !== undefined)
          expect(starting).toMatchObject({ code: 'idempotency_store_misconfigured' });
      },
    );

    it('though its entry cannot be: the doctor of that process says so', async () => {
      const store = storeOn(own.url);
      const observer = { replyMismatched: () => undefined, warned: () => undefined };
      await store.open(observer);
      const said = async () => {
        for await (const { check, verdict, message } of store.diagnose()) {
          if (check === 'journal') return `${verdict}: ${message}`;
        }
        return undefined;
      };
      expect(await said()).toBeUndefined();
      const before = Date.now();
      await acquire(store);
      expect(await said()).toMatch(/^ok: The stream idem:journal has 1 entries, the oldest of 2\d/);
      const oldest = Date.parse(/[-\dT:.]+Z/.exec((await said())!)![0]);
      expect(Math.abs(oldest - before)).toBeLessThan(60_000);
      // Also without the option, as at a terminal.
      const { findings } = await diagnose('--redis', own.url);
      expect(findings.filter(({ check }) => check === 'journal')).toMatchObject([
        { verdict: 'ok', message: expect.stringContaining('idem:journal has 1 entries') },
      ]);
      await admin.set('idem:journal', 'no stream');
      await acquire(store);
      await admin.del('idem:journal');
      expect(await said()).toMatch(
        /^warning: .* changed 1 records without an entry in idem:journal/,
      );
      await store.close(observer);
    });

    it('of another application: its start stops', async () => {
      const store = storeOn(own.url);
      const starting = callingApp({}, { store, service: 'other' });
      await expect(starting).rejects.toMatchObject({
        code: 'idempotency_options_invalid',
        message: expect.stringMatching(
          /^redisStore: the option "journal.service" is "shop", and the module option "service" is "other"/,
        ),
      });
      expect(await entriesOf(admin)).toEqual([]);
    });

    it('never where another kind of value has the key of the stream: the start stops', async () => {
      await admin.set('idem:journal', 'no stream');
      await expect(storeOn(own.url).open()).rejects.toMatchObject({
        code: 'idempotency_store_misconfigured',
        message: expect.stringMatching(/The key idem:journal .* something else than a stream/),
      });
    });
  });

  describe('A cluster is refused', () => {
    const CODE = 'idempotency_options_invalid';
    const REMEDY = /single server or Sentinel.*PostgreSQL.*subscribe\(\)/;

    it('as a client of one', () => {
      const cluster = new Cluster([], { lazyConnect: true });
      afterTest(() => cluster.disconnect());
      const create = () => redisStore({ client: cluster, journal: JOURNAL });
      expect(create).toThrow(REMEDY);
      expect(create).toThrow(expect.objectContaining({ code: CODE }));
    });

    describe('as a server of one', () => {
      const node = useServer(() => startRedis({ args: ['--cluster-enabled', 'yes'] }));

      it('at the start', async () => {
        const starting = storeOn(node.url).open();
        await expect(starting).rejects.toMatchObject({
          code: CODE,
          message: expect.stringMatching(REMEDY),
        });
      });
    });
  });

  it.each([
    [{ version: undefined }, /"journal.version" must be a string of 1 to 120 printable/],
    [{ service: '' }, /"journal.service" must be/],
    [{ maxLength: 10 }, /"journal.maxLength" must be an integer from 1000 to/],
    [{ retention: '1d' }, /"journal.retention" is not an option of redisStore/],
  ])('rejects the options %j', (changes, expected) => {
    expect(() => storeOn(server.url, changes)).toThrow(expected);
  });
});
