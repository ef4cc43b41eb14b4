import { beforeEach, describe, expect, it } from '@jest/globals';
import type { OwnConnectionOptions } from 'nestjs-idempotency/redis';
import {
  type Lease,
  StoreOutcomeUnknownError,
  type BeginReply,
  type Complete,
  type IdempotencyStore,
} from '../../support/internals/core.js';
import {
  RedisIdempotencyStore,
  openConnection,
  loadScripts,
} from '../../support/internals/redis.js';
import { afterTest } from '../../support/jest/after-test.js';
import { decodeRecord } from '../../support/redis/decode-record.js';
import { startRedis } from '../../support/redis/redis-server.js';
import { SentCommands } from '../../support/redis/sent-commands.js';
import { useRedisClient } from '../../support/redis/use-redis.js';
import { useServer } from '../../support/servers/use-server.js';
import {
  beginCommand,
  completeCommand,
  FINGERPRINT,
  leaseOf,
  newToken,
  releaseCommand,
  TIMEOUT_MS,
} from '../../support/stores/commands.js';
import { Tally } from '../../support/waiting/tally.js';
import { until } from '../../support/waiting/until.js';
import { ownStore } from './support/fixture.js';

const BODY = Buffer.alloc(65_536, 'outcome ');
const HEADER = '{"status":201}';
const { largestInScripts } = loadScripts().begin.large!;

// Its memory and its users change.
const server = useServer(startRedis);
const admin = useRedisClient(server);

beforeEach(async () => {
  await admin.flushall();
});

const largeOutcome = (changes: Partial<Complete> = {}) =>
  completeCommand({ outcome: { header: HEADER, body: BODY }, ...changes });

const keyOf = ({ recordKey }: Pick<Lease, 'recordKey'>) => `idem:1:${recordKey}`;

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
  const store = new RedisIdempotencyStore({ connect: () => Promise.resolve(own) });
  afterTest(() => store.close());
  await store.open();
  return { store, client: own.client as unknown as Client };
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
    expect(await store.complete(lease, largeOutcome({ state: 'failed' }))).toEqual({ kind: 'ok' });
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
    expect(await ofBytes(largestInScripts)).toEqual({
      bytes: largestInScripts,
      sent: [['evalsha'], ['evalsha']],
    });
    expect(await ofBytes(largestInScripts + 1)).toEqual({
      bytes: largestInScripts + 1,
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
    ['waits for replicas', { waitReplicas: { count: 1, timeoutMs: 1 } }],
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
    expect(sent.includes('set')).toBe(!isReplicated);
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
    const { store, client } = await open();
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
    await admin.set(`${keyOf(lease)}:${lease.token}`, record!, 'PX', TIMEOUT_MS);
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
    const { store, client } = await open();
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
    const { store, client } = await open();
    const lease = await acquire(store);
    const { evalshaBuffer } = client;
    client.evalshaBuffer = (...args) => {
      const failure = Object.assign(new Error('STRANGE words of a proxy'), { name: 'ReplyError' });
      return args[1] === 2 ? Promise.reject(failure) : evalshaBuffer.apply(client, args);
    };
    await completes(store, lease);
    const next = await acquire(store);
    const commands = await commandsOf();
    expect(await commands.during(() => completes(store, next))).not.toContain('set');
  });

  it('when the process ended before the script, it expires within the timeout of the command', async () => {
    const { store, client } = await open();
    const lease = await acquire(store);
    client.evalshaBuffer = () => Promise.reject(new Error('Connection is closed.'));
    await expect(store.complete(lease, largeOutcome({ timeoutMs: 500 }))).rejects.toThrow('closed');
    const staged = `${keyOf(lease)}:${lease.token}`;
    expect(await admin.pttl(staged)).toBeLessThanOrEqual(500);
    const listed = await ownStore(server.url).abandoned({ overMs: 0, limit: 9, timeoutMs: 5_000 });
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
