import { useRedis } from '../../support/redis/use-redis.js';
import { beforeEach, describe, expect, it } from '@jest/globals';
import type { Redis } from 'ioredis';
import { RedisIdempotencyStore } from 'nestjs-idempotency/redis';
import { ValueNotStorableError, type Fingerprint } from '../../support/internals/core.js';
import {
  beginCommand,
  completeCommand,
  extendCommand,
  FINGERPRINT,
  leaseOf,
  newToken,
  releaseCommand,
  TIMEOUT_MS,
} from '../../support/stores/commands.js';
import { userClient } from './support/fixture.js';

const server = useRedis();
let client: Redis;
let store: RedisIdempotencyStore;

beforeEach(() => {
  client = userClient(server.url);
  store = new RedisIdempotencyStore({ client });
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
    store = new RedisIdempotencyStore({ client, keyPrefix: 'a'.repeat(13) });
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
  it.each(['', 'two words', 'line\nfeed', 'é', '\x7f', 'x'.repeat(121)])(
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
    const { begin, lease } = await acquire({ note: '~'.repeat(120) });
    const stats = async (step: () => Promise<{ kind: string } | undefined>) => {
      await client.config('RESETSTAT');
      const before = client.stream.bytesRead;
      const reply = await step();
      const isShort = client.stream.bytesRead - before < 300;
      const calls = await client.info('commandstats');
      const count = (name: string) => Number(calls.match(`cmdstat_${name}:calls=(\\d+)`)?.[1] ?? 0);
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
    expect(await stats(() => store.release(otherLease, releaseCommand()))).toEqual(['lost', head]);
    expect(await stats(() => store.complete(lease, completeCommand()))).toEqual(['already', head]);
    const otherContent = completeCommand({ fingerprint: other.fingerprint });
    expect(await stats(() => store.complete(otherLease, otherContent))).toEqual(['lost', head]);
    const whole = { getrange: 1, get: 1, isShort: false };
    const sameContent = completeCommand();
    expect(await stats(() => store.complete(otherLease, sameContent))).toEqual([
      'superseded',
      whole,
    ]);
    expect(await stats(() => store.begin(begin))).toEqual(['completed', whole]);
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
    expect(await store.begin({ ...begin, fingerprint: FINGERPRINT })).toEqual({ kind: 'mismatch' });
    const other = { ...lease, token: newToken() };
    expect(await store.complete(other, completeCommand({ fingerprint }))).toMatchObject({
      kind: 'superseded',
      outcome,
    });
  });

  it('a client that turns numbers into strings gets the same replies', async () => {
    store = new RedisIdempotencyStore({ client: userClient(server.url, { stringNumbers: true }) });
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
