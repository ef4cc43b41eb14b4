import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Cluster, type Redis } from 'ioredis';
import { redisStore, type OwnConnectionOptions } from 'nestjs-idempotency/redis';
import {
  type AbandonedPage,
  type Begin,
  type BeginReply,
  type Complete,
  type Fingerprint,
  type IdempotencyStore,
  type Lease,
  StoreConfigurationError,
  StoreOutcomeUnknownError,
  StoreUnavailableError,
  ValueNotStorableError,
} from '../../support/internals/core.js';
import {
  LARGEST_IN_SCRIPTS,
  openConnection,
  ownLink,
  RedisIdempotencyStore,
} from '../../support/internals/redis.js';
import { afterTest } from '../../support/jest/after-test.js';
import { decodeRecord } from '../../support/redis/decode-record.js';
import { RedisCluster } from '../../support/redis/redis-cluster.js';
import { startRedis } from '../../support/redis/redis-server.js';
import { SentCommands } from '../../support/redis/sent-commands.js';
import { useRedis, useRedisClient } from '../../support/redis/use-redis.js';
import { useServer } from '../../support/servers/use-server.js';
import {
  beginCommand,
  completeCommand,
  extendCommand,
  FINGERPRINT,
  leaseOf,
  newRecordKey,
  newToken,
  releaseCommand,
  TIMEOUT_MS,
} from '../../support/stores/commands.js';
import { Tally } from '../../support/waiting/tally.js';
import { until } from '../../support/waiting/until.js';
import { ownStore, userClient } from './support/fixture.js';

const COMMANDS = 'tracing:ioredis:command:start';

const server = useServer(startRedis);

const admin = useRedisClient(server);

describe('records', () => {
  const server = useRedis();
  let client: Redis;
  let store: RedisIdempotencyStore;

  beforeEach(() => {
    client = userClient(server.url);
    store = redisStore({ client });
  });

  async function acquire(changes = {}) {
    const begin = beginCommand(changes);
    const reply = await store.begin(begin);
    if (reply.kind !== 'acquired') throw new Error(`not acquired: ${reply.kind}`);
    return { begin, reply, lease: leaseOf(begin, reply.fence), key: `idem:1:${begin.recordKey}` };
  }

  async function serverTimeUs(): Promise<number> {
    const [seconds, microseconds] = (await client.time()).map(Number);
    return seconds! * 1e6 + microseconds!;
  }

  describe('A record in Redis', () => {
    it('is one key with two lines of text while it is in progress', async () => {
      const { begin, reply, key } = await acquire({ origin: 'orders.create' });
      const { fence, now } = reply;
      const latest = Math.floor((await serverTimeUs()) / 1_000);
      expect(await client.get(key)).toBe(
        `2p${fence} ${begin.token} 1 0 ${FINGERPRINT}\n= 10000 ${begin.maxExecutionMs} ${begin.recordRetentionMs} orders.create\n`,
      );
      // SET reads the clock after TIME: by Redis 7.0 once more, so that the two may be a millisecond apart.
      const expiresAt = await client.pexpiretime(key);
      expect(expiresAt).toBeGreaterThanOrEqual(now + begin.recordRetentionMs);
      expect(expiresAt).toBeLessThanOrEqual(latest + begin.recordRetentionMs);
    });

    it('is two lines, the header and the bytes once it is completed', async () => {
      const { begin, lease, key } = await acquire();
      await store.complete(lease, completeCommand());
      const expiresAt = await client.pexpiretime(key);
      expect(await client.get(key)).toBe(
        `2c${lease.fence} ${begin.token} 1 0 ${FINGERPRINT}\n${expiresAt}\n{"status":201}\n{"id":1}`,
      );
    });

    it('is a tombstone of two lines once it is released', async () => {
      const { begin, lease, key } = await acquire();
      await store.release(lease, releaseCommand());
      const expiresAt = await client.pexpiretime(key);
      expect(await client.get(key)).toBe(
        `2r${lease.fence} ${begin.token} 1 0 ${FINGERPRINT}\n${expiresAt}\n`,
      );
    });

    it('has a fence that is the server time in microseconds, exactly', async () => {
      const before = await serverTimeUs();
      const { reply } = await acquire();
      const after = await serverTimeUs();
      expect(reply.fence).toBeGreaterThan(before);
      expect(reply.fence).toBeLessThan(after);
    });

    it('takes at most 552 bytes for a 59-byte key, a header of 91 and a body of 200 bytes', async () => {
      store = redisStore({ client, keyPrefix: 'a'.repeat(13) });
      const { begin, lease } = await acquire();
      const outcome = { header: 'h'.repeat(91), body: Buffer.alloc(200, 'b') };
      await store.complete(lease, completeCommand({ outcome }));
      const key = `${'a'.repeat(13)}:1:${begin.recordKey}`;
      expect(key).toHaveLength(59);
      expect(await client.memory('USAGE', key)).toBeLessThanOrEqual(552);
    });
  });

  describe('An outcome', () => {
    const everyByte = Buffer.from(Array.from({ length: 256 }, (_, code) => code));

    // The conformance kit has further ones (outcome-bytes).
    it.each([
      ['every ASCII character', everyByte.subarray(0, 128)],
      ['one non-ASCII byte', Buffer.of(0x41, 0x80)],
      ['every byte', everyByte],
      ['UTF-8 with a byte order mark', Buffer.from('\uFEFF{"name":"Zoë 𝒩"}')],
      ['UTF-8 that is cut within a character', Buffer.from('{"name":"Zoë').subarray(0, -1)],
      ['text of 1,024 bytes', Buffer.alloc(1_024, 'text')],
      ['text of 1,025 bytes', Buffer.alloc(1_025, 'text')],
    ])('of %s is stored and replayed byte for byte', async (_, body) => {
      const { begin, lease, key } = await acquire();
      const outcome = { header: 'header', body: new Uint8Array(body) };
      await store.complete(lease, completeCommand({ outcome }));
      const stored = await client.getBuffer(key);
      expect(stored?.subarray(stored.indexOf('\nheader\n') + 8)).toEqual(body);
      const replay = await store.begin({ ...begin, token: newToken() });
      expect(replay).toMatchObject({ kind: 'completed', outcome: { body } });
    });

    it('with a header of two lines is rejected before it corrupts a record', async () => {
      const { lease, key } = await acquire();
      const outcome = { header: 'a\nb', body: Buffer.alloc(0) };
      await expect(store.complete(lease, completeCommand({ outcome }))).rejects.toThrow(
        ValueNotStorableError,
      );
      expect(await client.get(key)).toMatch(/^2p/);
    });
  });

  describe('An origin', () => {
    it.each(['two words', 'line\nfeed', '', '-'])('of %j is rejected', async (origin) => {
      await expect(store.begin(beginCommand({ origin }))).rejects.toThrow(ValueNotStorableError);
    });
  });

  describe('A note', () => {
    it.each(['', 'two words', 'line\nfeed', 'é', '\x7f', 'x'.repeat(241)])(
      'of %j is rejected',
      async (note) => {
        await expect(store.begin(beginCommand({ note }))).rejects.toThrow(ValueNotStorableError);
      },
    );

    it('ends the first line of every state', async () => {
      const { begin, lease, key } = await acquire({ note: 'a~!' });
      const endOfFirstLine = / 1 0 \S+ a~!\n/;
      expect(await client.get(key)).toMatch(endOfFirstLine);
      await store.complete(lease, completeCommand());
      expect(await client.get(key)).toMatch(endOfFirstLine);
      expect(await store.begin({ ...begin, token: newToken() })).toMatchObject({ note: 'a~!' });
      const other = await acquire({ note: 'a~!' });
      await store.release(other.lease, releaseCommand());
      expect(await client.get(other.key)).toMatch(endOfFirstLine);
    });
  });

  describe('After the warm-up', () => {
    it.each([
      ['with script flags', true, {}],
      ['without script flags', false, { pexpireat: 2 }],
    ])('each operation is one EVALSHA, %s', async (_, isChecked, further) => {
      if (isChecked) await store.open();
      const steps = async () => {
        const { begin, lease } = await acquire();
        await store.extend(lease, extendCommand());
        await store.complete(lease, completeCommand());
        await store.release(lease, releaseCommand());
        await store.inspect(begin.recordKey, { timeoutMs: TIMEOUT_MS });
      };
      await steps();
      await client.config('RESETSTAT');
      await steps();
      const calls = Object.fromEntries(
        [...(await client.info('commandstats')).matchAll(/cmdstat_(\w+):calls=(\d+)/g)].map(
          ([, name, count]) => [name, Number(count)],
        ),
      );
      // Calls by the scripts: TIME and the record's first bytes in each of the five, SET once in begin, extend and complete; without
      // flags PEXPIREAT before those of the latter two.
      expect(calls).toEqual({
        evalsha: 5,
        time: 5,
        getrange: 5,
        set: 3,
        ...further,
      });
    });

    it('a large outcome is read, and sent, only for a reply that contains it', async () => {
      const { begin, lease } = await acquire({ note: '~'.repeat(240) });
      const stats = async (step: () => Promise<{ kind: string } | undefined>) => {
        await client.config('RESETSTAT');
        const before = client.stream.bytesRead;
        const reply = await step();
        const isShort = client.stream.bytesRead - before < 300;
        const calls = await client.info('commandstats');
        const count = (name: string) =>
          Number(calls.match(`cmdstat_${name}:calls=(\\d+)`)?.[1] ?? 0);
        return [reply?.kind, { getrange: count('getrange'), get: count('get'), isShort }];
      };
      const other = { ...begin, fingerprint: 'other' as Fingerprint };
      const otherLease = { ...lease, token: newToken() };
      const head = { getrange: 1, get: 0, isShort: true };
      const duplicate = { ...begin, token: newToken() };
      expect(await stats(() => store.begin(duplicate))).toEqual(['in_progress', head]);
      const outcome = { header: '{}', body: Buffer.alloc(2 ** 20) };
      await store.complete(lease, completeCommand({ outcome }));
      expect(await stats(() => store.begin(other))).toEqual(['mismatch', head]);
      expect(await stats(() => store.extend(lease, extendCommand()))).toEqual([
        'not_in_progress',
        head,
      ]);
      expect(await stats(() => store.extend(otherLease, extendCommand()))).toEqual(['lost', head]);
      expect(await stats(() => store.release(lease, releaseCommand()))).toEqual([
        'not_in_progress',
        head,
      ]);
      expect(await stats(() => store.release(otherLease, releaseCommand()))).toEqual([
        'lost',
        head,
      ]);
      expect(await stats(() => store.complete(lease, completeCommand()))).toEqual([
        'already',
        head,
      ]);
      const otherContent = completeCommand({ fingerprint: other.fingerprint });
      expect(await stats(() => store.complete(otherLease, otherContent))).toEqual(['lost', head]);
      const whole = { getrange: 1, get: 1, isShort: false };
      const sameContent = completeCommand();
      expect(await stats(() => store.complete(otherLease, sameContent))).toEqual([
        'superseded',
        whole,
      ]);
      // One byte more shows that the record is large.
      const large = { ...whole, getrange: 2 };
      expect(await stats(() => store.begin(begin))).toEqual(['completed', large]);
    });

    it('an origin longer than the first read is returned with its record', async () => {
      const begin = beginCommand({ origin: 'o'.repeat(3_000) });
      expect(await store.begin(begin)).toMatchObject({ kind: 'acquired' });
      const lease = leaseOf(begin, 0);
      expect(await store.begin(beginCommand({ ...begin, token: newToken() }))).toMatchObject({
        kind: 'in_progress',
      });
      expect(await store.extend(lease, extendCommand())).toEqual({ kind: 'ok' });
      expect(await store.inspect(begin.recordKey, { timeoutMs: TIMEOUT_MS })).toMatchObject({
        origin: begin.origin,
      });
      expect(await store.complete(lease, completeCommand())).toEqual({ kind: 'ok' });
    });

    it('a fingerprint longer than the first read is compared and replayed', async () => {
      const fingerprint = 'f'.repeat(300) as Fingerprint;
      const { begin, lease } = await acquire({ fingerprint, note: 'n' });
      await store.complete(lease, completeCommand({ state: 'failed' }));
      const { outcome } = completeCommand();
      expect(await store.begin({ ...begin, token: newToken() })).toEqual({
        kind: 'failed',
        outcome,
        retentionLeftMs: expect.any(Number),
        note: 'n',
      });
      expect(await store.begin({ ...begin, fingerprint: FINGERPRINT })).toEqual({
        kind: 'mismatch',
      });
      const other = { ...lease, token: newToken() };
      expect(await store.complete(other, completeCommand({ fingerprint }))).toMatchObject({
        kind: 'superseded',
        outcome,
      });
    });

    it('a client that turns numbers into strings gets the same replies', async () => {
      store = redisStore({
        client: userClient(server.url, { stringNumbers: true }),
      });
      const { begin, reply } = await acquire();
      expect(reply).toEqual({
        kind: 'acquired',
        fence: expect.any(Number),
        now: expect.any(Number),
        attempt: 1,
        takeovers: 0,
      });
      const other = await store.begin(beginCommand({ recordKey: begin.recordKey }));
      expect(other).toEqual({ kind: 'in_progress', leaseLeftMs: expect.any(Number) });
    });
  });
});

describe('abandoned', () => {
  const ORIGIN = 'b3JkZXJz';
  const LEASE_MS = 100;

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
      const store = redisStore({ client });
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
      const store = redisStore({ client: cluster });
      const recordKeys = await spread(store);
      const { pages, keys } = await listed(store);
      expect(keys.sort()).toEqual(recordKeys.sort());
      expect(pages.length).toBeGreaterThanOrEqual(servers.nodes.length);
    });

    it('the records after the page of another process, and from the first server on when the slots have moved', async () => {
      const store = redisStore({ client: cluster });
      await spread(store);
      const command = { overMs: 0, limit: 1_000, timeoutMs: TIMEOUT_MS };
      const first = await store.abandoned(command);
      const other = redisStore({ client: cluster });
      const second = await other.abandoned({ ...command, cursor: first.cursor });
      const third = await store.abandoned({ ...command, cursor: second.cursor });
      const keysOf = ({ records }: AbandonedPage) =>
        records.map(({ recordKey }) => recordKey).sort();
      expect(new Set([first, second, third].flatMap(keysOf)).size).toBe(60);
      // A cursor of another map of the slots is meaningless: the keys may be anywhere.
      const [scanned, name] = second.cursor?.split('@') ?? [];
      for (const cursor of [
        `77@gone@${second.cursor ?? ''}`,
        `${String(scanned)}@${String(name)}`,
      ]) {
        expect(keysOf(await other.abandoned({ ...command, cursor }))).toEqual(keysOf(first));
      }
    });
  });
});

describe('large records', () => {
  const BODY = Buffer.alloc(65_536, 'outcome ');
  const HEADER = '{"status":201}';

  beforeEach(async () => {
    await admin.flushall();
  });

  const largeOutcome = (changes: Partial<Complete> = {}) =>
    completeCommand({ outcome: { header: HEADER, body: BODY }, ...changes });

  const keyOf = ({ recordKey }: Pick<Lease, 'recordKey'>) => `idem:1:${recordKey}`;
  const stagedKeyOf = (lease: Lease) => `idem:2:{${keyOf(lease)}}:${lease.token}`;

  async function acquire(store: IdempotencyStore, changes = {}): Promise<Lease> {
    const begin = beginCommand(changes);
    const reply = await store.begin(begin);
    if (!('fence' in reply)) throw new Error(`The begin returned ${reply.kind}.`);
    return leaseOf(begin, reply.fence);
  }

  const replay = (store: IdempotencyStore, { recordKey }: Pick<Lease, 'recordKey'>, changes = {}) =>
    store.begin(beginCommand({ recordKey, ...changes }));

  /** That it is the outcome above, byte for byte. */
  function expectLarge(reply: BeginReply): void {
    if (reply.kind !== 'completed') throw new Error(`The begin returned ${reply.kind}.`);
    expect(reply.outcome.header).toBe(HEADER);
    expect(BODY.equals(reply.outcome.body)).toBe(true);
  }

  /** The methods by which the store moves large records. */
  interface Client {
    del: (key: unknown) => Promise<unknown>;
    getBuffer: (key: string) => Promise<unknown>;
    readonly stream: {
      _writev: (chunks: { chunk: string | Buffer }[], done: () => void) => void;
    };
    evalshaBuffer: (sha1: string, keys: number, ...args: unknown[]) => Promise<unknown>;
  }

  /** A store with access to its client. */
  async function open(options: OwnConnectionOptions = {}) {
    const own = await openConnection({ url: server.url, ...options });
    const store = new RedisIdempotencyStore({ connect: () => Promise.resolve(ownLink(own)) });
    afterTest(() => store.close());
    await store.open();
    return { store, client: own.client as unknown as Client };
  }

  /** Its scripts go through the methods of the client, as with a listener of ioredis' channel. */
  function openHooked() {
    const onCommand = () => undefined;
    subscribe(COMMANDS, onCommand);
    afterTest(() => void unsubscribe(COMMANDS, onCommand));
    return open();
  }

  async function commandsOf(): Promise<SentCommands> {
    const commands = await SentCommands.to(server);
    afterTest(() => commands.stop());
    return commands;
  }

  describe('A large outcome on a connection of the store', () => {
    it('leaves one key, with the bytes and the expiry that a script would write', async () => {
      const store = ownStore(server.url);
      const lease = await acquire(store, { origin: 'here' });
      expect(await store.complete(lease, largeOutcome({ state: 'failed' }))).toEqual({
        kind: 'ok',
      });
      expect(await admin.keys('*')).toEqual([keyOf(lease)]);
      const value = (await admin.getBuffer(keyOf(lease)))!.toString('latin1');
      const record = decodeRecord(value);
      expect(record).toMatchObject({
        ...{ state: 'failed', fence: lease.fence, token: lease.token, fingerprint: FINGERPRINT },
        ...{ attempt: 1, takeovers: 0, outcome: { header: HEADER, body: BODY } },
      });
      expect(await admin.pexpiretime(keyOf(lease))).toBe(record.expiresAt);
      const [seconds] = await admin.time();
      const leftMs = record.expiresAt - Number(seconds) * 1_000;
      expect(Math.abs(leftMs - largeOutcome().retentionMs)).toBeLessThan(60_000);
    });

    it('is one whose record has more bytes than the scripts move', async () => {
      const store = ownStore(server.url);
      const commands = await commandsOf();
      // The first call of each script also sends its text.
      const first = await acquire(store);
      await store.complete(first, largeOutcome());
      const one = await acquire(store);
      await store.complete(one, completeCommand());
      const headBytes = (await admin.strlen(keyOf(one))) - completeCommand().outcome.body.length;
      const ofBytes = async (bytes: number) => {
        const lease = await acquire(store);
        const outcome = { header: HEADER, body: BODY.subarray(0, bytes - headBytes) };
        const sent = [
          await commands.during(() => store.complete(lease, largeOutcome({ outcome }))),
          await commands.during(() => replay(store, lease)),
        ];
        return { bytes: await admin.strlen(keyOf(lease)), sent };
      };
      expect(await ofBytes(LARGEST_IN_SCRIPTS)).toEqual({
        bytes: LARGEST_IN_SCRIPTS,
        sent: [['evalsha'], ['evalsha']],
      });
      expect(await ofBytes(LARGEST_IN_SCRIPTS + 1)).toEqual({
        bytes: LARGEST_IN_SCRIPTS + 1,
        sent: [
          ['set', 'evalsha'],
          ['evalsha', 'get'],
        ],
      });
    });

    it('is sent in one write with its script', async () => {
      const { store, client } = await open();
      const lease = await acquire(store);
      const writes: string[][] = [];
      const { stream } = client;
      const { _writev: write } = stream;
      stream._writev = (chunks, done) => {
        const words = chunks.map(({ chunk }) => String(chunk).split('\r\n', 3)[2] ?? '');
        writes.push(words.map((word) => word.toLowerCase()));
        write.call(stream, chunks, done);
      };
      await store.complete(lease, largeOutcome());
      expect(writes).toEqual([['set', 'evalsha']]);
    });

    it('is not read for a mismatch', async () => {
      const store = ownStore(server.url);
      const lease = await acquire(store);
      await store.complete(lease, largeOutcome());
      const sentBytes = async () => {
        const [, bytes] = /total_net_output_bytes:(\d+)/.exec(await admin.info('stats'))!;
        return Number(bytes);
      };
      const before = await sentBytes();
      const other = beginCommand({ recordKey: lease.recordKey, fingerprint: 'other' as never });
      expect(await store.begin(other)).toEqual({ kind: 'mismatch' });
      expect((await sentBytes()) - before).toBeLessThan(BODY.length / 4);
    });

    it('keeps the prefix that the client adds to keys', async () => {
      const store = ownStore(server.url, { connection: { keyPrefix: 'app:' } });
      const lease = await acquire(store);
      expect(await store.complete(lease, largeOutcome())).toEqual({ kind: 'ok' });
      expectLarge(await replay(store, lease));
      expect(await admin.keys('*')).toEqual([`app:${keyOf(lease)}`]);
    });

    it('notifies a waiting duplicate', async () => {
      const store = ownStore(server.url);
      const lease = await acquire(store);
      let notified = 0;
      const stop = await store.watch(lease.recordKey, () => (notified += 1), {
        timeoutMs: TIMEOUT_MS,
      });
      await store.complete(lease, largeOutcome({ notify: true }));
      await until(() => notified === 1);
      stop?.();
    });

    it('is stored and read by a server that has forgotten the scripts', async () => {
      const store = ownStore(server.url);
      const lease = await acquire(store);
      await admin.script('FLUSH');
      expect(await store.complete(lease, largeOutcome())).toEqual({ kind: 'ok' });
      await admin.script('FLUSH');
      expectLarge(await replay(store, lease));
      expect(await admin.keys('*')).toEqual([keyOf(lease)]);
    });

    it.each([
      ['waits for replicas', { waitReplicas: { count: 1, timeout: 1 } }],
      ['sends each command at once', { connection: { enableAutoPipelining: false } }],
    ])('is complete on a store that %s', async (_, options) => {
      const store = ownStore(server.url, options);
      const begin = beginCommand();
      const isReplicated = 'waitReplicas' in options;
      const commands = await commandsOf();
      const sent = await commands.during(async () => {
        const reply = await store.begin(begin).catch(() => undefined);
        const fence = reply !== undefined && 'fence' in reply ? reply.fence : 0;
        const completed = store.complete(leaseOf(begin, fence), largeOutcome());
        await (isReplicated ? expect(completed).rejects.toThrow('replicas') : completed);
      });
      expect(sent).toContain('set');
      expectLarge(await replay(ownStore(server.url), leaseOf(begin, 0)));
      expect(await admin.keys('*')).toEqual([keyOf(begin)]);
    });
  });

  describe('A staged record is deleted, and the script completes,', () => {
    const other = { fingerprint: 'other' as never };
    it.each([
      {
        when: 'the attempt has taken over',
        prepare: async (store: IdempotencyStore) => {
          const { recordKey } = await acquire(store, { leaseMs: 1 });
          const isOver = async () => {
            const record = await store.inspect(recordKey, { timeoutMs: TIMEOUT_MS });
            return record!.leaseLeftMs! < 0;
          };
          await until(isOver);
          return acquire(store, { recordKey });
        },
        reply: { kind: 'ok' },
      },
      {
        when: 'another attempt was released',
        prepare: async (store: IdempotencyStore) => {
          const released = await acquire(store);
          await store.release(released, releaseCommand());
          return acquire(store, { recordKey: released.recordKey });
        },
        reply: { kind: 'ok' },
      },
      {
        when: 'the record has a note',
        prepare: (store: IdempotencyStore) => acquire(store, { note: 'trace' }),
        reply: { kind: 'ok' },
      },
      {
        when: 'the record has another fingerprint',
        prepare: (store: IdempotencyStore) => acquire(store, other),
        reply: { kind: 'ok' },
        content: other,
      },
      {
        when: 'an earlier copy of the command is complete',
        prepare: async (store: IdempotencyStore) => {
          const lease = await acquire(store);
          await store.complete(lease, largeOutcome());
          return lease;
        },
        reply: { kind: 'already' },
      },
      {
        when: 'the record is gone',
        prepare: async (store: IdempotencyStore) => {
          const lease = await acquire(store);
          await admin.flushall();
          return lease;
        },
        reply: { kind: 'restored' },
      },
      {
        when: 'another attempt has the record',
        prepare: async (store: IdempotencyStore) => {
          const lease = await acquire(store, { leaseMs: 60_000 });
          return { ...lease, token: newToken() };
        },
        reply: { kind: 'lost', state: 'in_progress' },
        isLost: true,
      },
    ])('when $when', async ({ prepare, reply, content = {}, isLost = false }) => {
      const store = ownStore(server.url);
      const lease = await prepare(store);
      const commands = await commandsOf();
      const sent = await commands.during(async () => {
        expect(await store.complete(lease, largeOutcome({ whenGone: 'restore' }))).toMatchObject(
          reply,
        );
      });
      expect(sent.filter((command) => command === 'set')).toHaveLength(1);
      expect(await admin.keys('*')).toEqual([keyOf(lease)]);
      if (!isLost) expectLarge(await replay(store, lease, content));
    });

    it('when a copy of both commands arrives after the completion', async () => {
      const { store, client } = await openHooked();
      const copies: (() => Promise<unknown>)[] = [];
      const { evalshaBuffer } = client;
      client.evalshaBuffer = (...args) => {
        copies.push(() => evalshaBuffer.apply(client, args));
        return evalshaBuffer.apply(client, args);
      };
      const lease = await acquire(store);
      expect(await store.complete(lease, largeOutcome())).toEqual({ kind: 'ok' });
      const record = await admin.get(keyOf(lease));
      const expiry = await admin.pexpiretime(keyOf(lease));
      await admin.set(stagedKeyOf(lease), record!, 'PX', TIMEOUT_MS);
      expect(String(await copies.at(-1)!())).toMatch(/ other$/);
      expect(await admin.keys('*')).toEqual([keyOf(lease)]);
      expect(await admin.get(keyOf(lease))).toBe(record);
      expect(await admin.pexpiretime(keyOf(lease))).toBe(expiry);
    });
  });

  describe('Without a staged record, the script completes', () => {
    async function completes(store: IdempotencyStore, lease: Lease) {
      expect(await store.complete(lease, largeOutcome())).toEqual({ kind: 'ok' });
      expectLarge(await replay(store, lease));
    }

    it('when the server has no memory for it', async () => {
      const store = ownStore(server.url);
      const lease = await acquire(store);
      await admin.config('SET', 'maxmemory', '1');
      try {
        expect(await store.complete(lease, largeOutcome())).toEqual({ kind: 'ok' });
      } finally {
        await admin.config('SET', 'maxmemory', '0');
      }
      expectLarge(await replay(store, lease));
      expect(await admin.keys('*')).toEqual([keyOf(lease)]);
      // The next one is staged again.
      const next = await acquire(store);
      const commands = await commandsOf();
      expect(await commands.during(() => completes(store, next))).toContain('set');
    });

    it('when the server has evicted it', async () => {
      const { store, client } = await openHooked();
      const lease = await acquire(store);
      const { evalshaBuffer } = client;
      client.evalshaBuffer = (...args) => {
        const [, keys, , staged] = args;
        if (keys === 2) void client.del(staged);
        return evalshaBuffer.apply(client, args);
      };
      await completes(store, lease);
    });

    it('after an error that is not known, and no further record is staged', async () => {
      const { store, client } = await openHooked();
      const lease = await acquire(store);
      const { evalshaBuffer } = client;
      client.evalshaBuffer = (...args) => {
        const failure = Object.assign(new Error('STRANGE words of a proxy'), {
          name: 'ReplyError',
        });
        return args[1] === 2 ? Promise.reject(failure) : evalshaBuffer.apply(client, args);
      };
      await completes(store, lease);
      const next = await acquire(store);
      const commands = await commandsOf();
      expect(await commands.during(() => completes(store, next))).not.toContain('set');
    });

    it('when the process ended before the script, it expires within the timeout of the command', async () => {
      const { store, client } = await openHooked();
      const lease = await acquire(store);
      client.evalshaBuffer = () => Promise.reject(new Error('Connection is closed.'));
      await expect(store.complete(lease, largeOutcome({ timeoutMs: 500 }))).rejects.toThrow(
        'closed',
      );
      expect(await admin.pttl(stagedKeyOf(lease))).toBeLessThanOrEqual(500);
      const listed = await ownStore(server.url).abandoned({
        overMs: 0,
        limit: 9,
        timeoutMs: 5_000,
      });
      expect(listed.records).toEqual([]);
      await until(async () => (await admin.keys('*')).length === 1);
      expect(await admin.keys('*')).toEqual([keyOf(lease)]);
      await completes(ownStore(server.url), lease);
    });
  });

  describe('For a user who may use the keys of the key prefix alone, a large outcome is complete', () => {
    const DOCUMENTED = ['evalsha', 'eval', 'time', 'getrange', 'get', 'set', 'pexpireat', 'info'];

    /** @returns the commands of a first request, a second one and their replays. */
    async function sentBy(...rules: string[]) {
      await admin.call('ACL', 'SETUSER', 'limited', 'reset', 'on', '>pw', 'resetkeys', ...rules);
      await admin.script('FLUSH');
      const store = ownStore(`redis://limited:pw@127.0.0.1:${server.port}`);
      const commands = await commandsOf();
      const sent: string[][] = [];
      for (let i = 0; i < 2; i += 1) {
        const lease = await acquire(store);
        const completed = async () => {
          expect(await store.complete(lease, largeOutcome())).toEqual({ kind: 'ok' });
        };
        sent.push(await commands.during(completed));
        expectLarge(await replay(store, lease));
      }
      return { sent, keys: await admin.keys('*') };
    }

    const allowed = (...names: string[]) => names.map((name) => `+${name}`);

    it('by all permissions that it should have', async () => {
      const { sent, keys } = await sentBy(
        '~idem:*',
        ...allowed(...DOCUMENTED, 'setrange', 'rename', 'unlink'),
      );
      expect(sent[1]).toEqual(['set', 'evalsha']);
      expect(keys).toHaveLength(2);
    });

    it.each([
      ['SETRANGE', ['rename', 'unlink']],
      ['RENAME', ['setrange', 'unlink']],
      ['UNLINK', ['setrange', 'rename']],
      ['any of the three', []],
    ])('without %s, and nothing is left', async (missing, names) => {
      const { sent } = await sentBy('~idem:*', ...allowed(...DOCUMENTED, ...names));
      expect(sent[1]).toEqual(missing === 'UNLINK' ? ['set', 'evalsha'] : ['evalsha']);
      await until(async () => (await admin.keys('*')).length === 2);
    });

    it('though no key but records is permitted', async () => {
      const { sent, keys } = await sentBy(`~idem:1:${'?'.repeat(43)}`, '+@all');
      expect(sent[1]).toEqual(['evalsha']);
      expect(keys).toHaveLength(2);
    });
  });

  describe('A large record that changes before GET reads it', () => {
    async function finished() {
      const { store, client } = await open();
      const lease = await acquire(store);
      await store.complete(lease, largeOutcome());
      const { getBuffer } = client;
      const before = (change: () => Promise<unknown>) => {
        client.getBuffer = async (key) => {
          client.getBuffer = getBuffer;
          await change();
          return getBuffer.call(client, key);
        };
      };
      return { store, client, lease, before };
    }

    it('is acquired if it is gone', async () => {
      const { store, lease, before } = await finished();
      before(() => admin.flushall());
      expect(await replay(store, lease)).toMatchObject({ kind: 'acquired', attempt: 1 });
    });

    it('is in progress if another attempt began', async () => {
      const { store, lease, before } = await finished();
      before(async () => {
        await admin.flushall();
        await acquire(ownStore(server.url), { recordKey: lease.recordKey });
      });
      expect(await replay(store, lease)).toMatchObject({ kind: 'in_progress' });
    });

    it("has its own outcome if the reply is another record's", async () => {
      const { store, client, lease } = await finished();
      const other = await acquire(store);
      const outcome = { header: HEADER, body: Buffer.alloc(BODY.length, 'another ') };
      await store.complete(other, completeCommand({ outcome }));
      const { getBuffer } = client;
      client.getBuffer = () => getBuffer.call(client, keyOf(other));
      expectLarge(await replay(store, lease));
    });

    it('is read again after a lost connection', async () => {
      const { store, client, lease } = await finished();
      const { getBuffer } = client;
      client.getBuffer = () => {
        client.getBuffer = getBuffer;
        return Promise.reject(new Error('Connection is closed.'));
      };
      expectLarge(await replay(store, lease));
    });

    it('is not acquired for a caller that has given up', async () => {
      const { store, client, lease } = await finished();
      const { getBuffer } = client;
      const begin = beginCommand({ recordKey: lease.recordKey, timeoutMs: 50 });
      const given = new Tally();
      let read: Promise<unknown> | undefined;
      client.getBuffer = (key) => {
        read = given.reached(1).then(() => getBuffer.call(client, key));
        return read;
      };
      await expect(store.begin(begin)).rejects.toThrow(StoreOutcomeUnknownError);
      await admin.flushall();
      given.add();
      expect(await read).toBeNull();
      await store.inspect(lease.recordKey, { timeoutMs: TIMEOUT_MS });
      expect(await admin.keys('*')).toEqual([]);
    });
  });
});
