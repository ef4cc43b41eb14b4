import { createSecretKey, type KeyObject, randomBytes } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { type SecretKeys, staticKeys } from 'nestjs-idempotency';
import { StandingClock } from '../../support/clocks/standing-clock.js';
import { NOT_KEPT, type Outcome } from '../../support/internals/core.js';
import {
  decodeFrame,
  FRAME_HEADER,
  OutcomeTransform,
  type OutcomeBinding,
  UnreadableOutcome,
} from '../../support/internals/payload.js';
import {
  BINDING,
  equal,
  keyOf,
  KEYS,
  opened,
  optionsOf,
  orders,
  outcomeOf,
  reasonOf,
  OWNER,
} from './support.js';

const HOUR_MS = 3_600_000;

const sealOf = ({ body }: Outcome) => decodeFrame(body).head.seal!;
const saltOf = (packed: Outcome) => Buffer.from(sealOf(packed).salt).toString('hex');

/** Keys that change, and a source that can fail. */
class Source implements SecretKeys {
  loads = 0;
  current = 'k1';
  keys = new Map<string, KeyObject>([['k1', createSecretKey(keyOf(1))]]);
  answer: (signal: AbortSignal) => Promise<void> = () => Promise.resolve();

  async load(signal: AbortSignal) {
    this.loads += 1;
    await this.answer(signal);
    // As a KMS would: new objects each time.
    const keys = [...this.keys].map(([id, key]) => [id, createSecretKey(key.export())] as const);
    return { current: this.current, keys: new Map(keys) };
  }
}

describe('an encrypted outcome', () => {
  const outcome = orders(2);

  it('is the same after it, and shows nothing of itself', async () => {
    const { pack, unpack } = await opened(KEYS);
    const packed = await pack(outcome);
    expect(packed.header).toBe(FRAME_HEADER);
    expect(Buffer.from(packed.body).toString('latin1')).not.toMatch(/status|ord_|EUR|paid/);
    expect(equal(await unpack(packed), outcome)).toBe(true);
  });

  it.each([
    ['', {}],
    [', and compressed', { compression: { thresholdBytes: 64 } }],
  ])('is not read with any single bit changed%s', async (_, given) => {
    const { pack, unpack } = await opened(
      staticKeys({ current: 'k1', keys: { k1: keyOf(1), k0: keyOf(0), k3: keyOf(3) } }),
      given,
    );
    const { header, body } = await pack(outcome);
    const reasons = new Set<string>();
    for (let bit = 0; bit < body.length * 8; bit += 1) {
      const changed = Buffer.from(body);
      changed[bit >> 3]! ^= 1 << (bit & 7);
      reasons.add(await reasonOf(() => unpack({ header, body: changed })));
    }
    expect(reasons).toEqual(new Set(['format', 'key', 'integrity']));
  });

  it.each([
    ['', {}],
    [', and compressed', { compression: { thresholdBytes: 64 } }],
  ])('is not read at any other length%s', async (_, given) => {
    const { pack, unpack } = await opened(KEYS, given);
    const { header, body } = await pack(outcome);
    for (let length = 0; length < body.length; length += 1) {
      const cut = { header, body: body.subarray(0, length) };
      expect(['format', 'integrity']).toContain(await reasonOf(() => unpack(cut)));
    }
    const longer = { header, body: Buffer.concat([body, Buffer.of(0)]) };
    expect(await reasonOf(() => unpack(longer))).toBe('integrity');
  });

  it('is not read with another length in its head', async () => {
    const { pack, unpack } = await opened(KEYS, { compression: { thresholdBytes: 64 } });
    const { header, body } = await pack(outcome);
    const lengthAt = decodeFrame(body).start - 4;
    for (let bit = 0; bit < 24; bit += 1) {
      const changed = Buffer.from(body);
      changed[lengthAt + 1 + (bit >> 3)]! ^= 1 << (bit & 7);
      // Before anything is inflated.
      expect(await reasonOf(() => unpack({ header, body: changed }))).toBe('integrity');
    }
  });

  it.each<[keyof OutcomeBinding, string]>([
    ['recordKey', 'b'.repeat(43)],
    ['state', 'failed'],
    ['fingerprint', 'g'.repeat(22)],
    ['fingerprint', '-'],
  ])('is not read with another %s', async (field, value) => {
    const { pack, unpack } = await opened(KEYS);
    const packed = await pack(outcome);
    const other = { ...BINDING, [field]: value };
    expect(await reasonOf(() => unpack(packed, other))).toBe('integrity');
  });

  it('is not read with the parts of its binding divided elsewhere', async () => {
    const { pack, unpack } = await opened(KEYS);
    const bindingOf = (recordKey: string, fingerprint: string) =>
      ({ recordKey, state: 'completed', fingerprint }) as OutcomeBinding;
    const packed = await pack(outcome, bindingOf('a', 'completed:b'));
    const moved = bindingOf('acompleted:', 'b');
    expect(await reasonOf(() => unpack(packed, moved))).toBe('integrity');
  });

  it('is so, too, where compression gains nothing', async () => {
    const { pack } = await opened(KEYS, { compression: { thresholdBytes: 64 } });
    const marked = outcomeOf(Buffer.concat([Buffer.from('marked'), randomBytes(500)]));
    const { header, body } = await pack(marked);
    expect(header).toBe(FRAME_HEADER);
    expect(decodeFrame(body).head.compression).toBeUndefined();
    expect(Buffer.from(body).includes('marked')).toBe(false);
  });

  it('is in clear where a route says so, and is read with keys and without', async () => {
    const { pack, unpack } = await opened(KEYS, { encryption: false });
    expect(await pack(outcome)).toBe(outcome);
    expect(await unpack(outcome)).toBe(outcome);
  });

  it('cannot be read without keys', async () => {
    const packed = await (await opened(KEYS)).pack(outcome);
    const { unpack } = await opened();
    expect(await reasonOf(() => unpack(packed))).toBe('key');
  });

  it('is never written in clear before the keys are there', () => {
    const transform = new OutcomeTransform(KEYS, new StandingClock());
    const options = optionsOf();
    expect(() => transform.pack(outcome, BINDING, options, OWNER)).toThrow('not loaded yet');
  });

  it('has an error that shows neither key nor content', async () => {
    const { pack, unpack } = await opened(KEYS);
    const { header, body } = await pack(outcome);
    const error: unknown = await unpack({ header, body: body.subarray(0, 60) }).catch(
      (reason: unknown) => reason,
    );
    const { message, reason } = error as UnreadableOutcome;
    expect(reason).toBe('integrity');
    expect(message).toBe('The stored outcome was changed, or belongs to another record.');
  });
});

describe('the key that a process derives', () => {
  const outcome = orders(1);

  it('is its own, and others read what it wrote', async () => {
    const [one, other] = [await opened(KEYS), await opened(KEYS)];
    const packed = await one.pack(outcome);
    expect(saltOf(packed)).not.toBe(saltOf(await other.pack(outcome)));
    expect(equal(await other.unpack(packed), outcome)).toBe(true);
  });

  it('is used with a nonce once', async () => {
    const { pack } = await opened(KEYS);
    const nonces = new Set<string>();
    for (let count = 0; count < 2_000; count += 1) {
      nonces.add(Buffer.from(sealOf(await pack(outcome)).nonce).toString('hex'));
    }
    expect(nonces.size).toBe(2_000);
  });

  it('is renewed after an hour', async () => {
    const clock = new StandingClock();
    const { pack, unpack } = await opened(KEYS, {}, clock);
    const first = await pack(outcome);
    await clock.advance(HOUR_MS - 1);
    expect(saltOf(await pack(outcome))).toBe(saltOf(first));
    await clock.advance(1);
    expect(saltOf(await pack(outcome))).not.toBe(saltOf(first));
    expect(equal(await unpack(first), outcome)).toBe(true);
  });

  it('is renewed after 2^28 outcomes', async () => {
    const { transform, pack } = await opened(KEYS);
    const first = saltOf(await pack(outcome));
    const state = transform['sealing']!['sealingKeys'].get('k1')!;
    expect(state.sealsLeft).toBe(2 ** 28 - 1);
    state.sealsLeft = 1;
    expect(saltOf(await pack(outcome))).toBe(first);
    expect(saltOf(await pack(outcome))).not.toBe(first);
  });

  it('is kept by readers, of a limited number of processes', async () => {
    const reader = await opened(KEYS);
    const derived = reader.transform['sealing']!['derived'];
    const packed: Outcome[] = [];
    for (let process = 0; process < 3; process += 1) {
      packed.push(await (await opened(KEYS)).pack(outcome));
    }
    for (const each of [...packed, ...packed]) await reader.unpack(each);
    expect(derived.size).toBe(3);
    const [oldest] = derived.keys();
    const { body } = packed[0]!;
    const saltAt = Buffer.from(body).indexOf(Buffer.from(sealOf(packed[0]!).salt));
    for (let other = 0; other < 4_096; other += 1) {
      const changed = Buffer.from(body);
      changed.writeUInt32BE(other, saltAt);
      await reasonOf(() => reader.unpack({ header: FRAME_HEADER, body: changed }));
    }
    expect(derived.size).toBe(4_096);
    expect(derived.has(oldest!)).toBe(false);
  });
});

describe('the rotation of keys', () => {
  const outcome = orders(1);
  const [old, added] = [keyOf(1), keyOf(2)];
  const before = staticKeys({ current: 'old', keys: { old } });
  const readersFirst = staticKeys({ current: 'old', keys: { old, new: added } });
  const writers = staticKeys({ current: 'new', keys: { old, new: added } });
  const after = staticKeys({ current: 'new', keys: { new: added } });

  it('leaves each outcome readable in each step that follows its own', async () => {
    const steps = [];
    for (const keys of [before, readersFirst, writers, after]) steps.push(await opened(keys));
    for (const [at, { pack }] of steps.entries()) {
      const packed = await pack(outcome);
      // Two steps run side by side, as processes are replaced one by one.
      for (const { unpack } of steps.slice(Math.max(0, at - 1), at + 2)) {
        expect(equal(await unpack(packed), outcome)).toBe(true);
      }
    }
  });

  it('in the wrong order ends with an unknown key', async () => {
    const packed = await (await opened(writers)).pack(outcome);
    const { unpack } = await opened(before);
    expect(await reasonOf(() => unpack(packed))).toBe('key');
  });

  it('does not take a key for another one that has its id', async () => {
    const packed = await (await opened(before)).pack(outcome);
    const { unpack } = await opened(staticKeys({ current: 'old', keys: { old: added } }));
    expect(await reasonOf(() => unpack(packed))).toBe('integrity');
  });
});

describe('keys that are loaded again', () => {
  const outcome = orders(1);
  const MINUTES_MS = 300_000;

  async function withSource() {
    const [source, clock] = [new Source(), new StandingClock()];
    return { source, clock, ...(await opened(source, {}, clock)) };
  }

  it('are so at a use, at most every five minutes, in the background', async () => {
    const { source, clock, pack, unpack } = await withSource();
    const first = await pack(outcome);
    await clock.advance(MINUTES_MS - 1);
    await unpack(first);
    expect(source.loads).toBe(1);
    await clock.advance(1);
    // No caller waits for it.
    source.answer = () => new Promise(() => undefined);
    expect(saltOf(await pack(outcome))).toBe(saltOf(first));
    await Promise.all([pack(outcome), unpack(first)]);
    expect(source.loads).toBe(2);
  });

  it('that are the same leave what is derived from them in use', async () => {
    const { source, clock, pack } = await withSource();
    const first = await pack(outcome);
    for (let times = 0; times < 3; times += 1) {
      await clock.advance(MINUTES_MS);
      expect(saltOf(await pack(outcome))).toBe(saltOf(first));
    }
    expect(source.loads).toBe(4);
  });

  it('encrypt by the new one', async () => {
    const { source, clock, pack } = await withSource();
    await pack(outcome);
    source.keys.set('k2', createSecretKey(keyOf(2)));
    source.current = 'k2';
    await clock.advance(MINUTES_MS);
    await pack(outcome);
    await clock.advance(0);
    expect(sealOf(await pack(outcome)).keyId).toBe('k2');
  });

  it('stay in use where another key has taken an id over, which is reported', async () => {
    const { source, clock, unpack, stale } = await withSource();
    const written = async (key: Buffer) =>
      (await opened(staticKeys({ current: 'k1', keys: { k1: key } }))).pack(outcome);
    const first = await written(keyOf(1));
    expect(equal(await unpack(first), outcome)).toBe(true);
    source.keys.set('k1', createSecretKey(keyOf(2)));
    await clock.advance(MINUTES_MS);
    await unpack(first);
    await clock.advance(0);
    expect(stale).toEqual([expect.objectContaining({ code: 'idempotency_options_invalid' })]);
    expect(equal(await unpack(first), outcome)).toBe(true);
    expect(await reasonOf(async () => unpack(await written(keyOf(2))))).toBe('integrity');
  });

  it('let an outcome wait whose key is not known yet', async () => {
    const { source, clock, unpack } = await withSource();
    const keys = { k1: keyOf(1), k2: keyOf(2) };
    const packed = await (await opened(staticKeys({ current: 'k2', keys }))).pack(outcome);
    source.keys.set('k2', createSecretKey(keyOf(2)));
    expect(await reasonOf(() => unpack(packed))).toBe('key');
    await clock.advance(MINUTES_MS);
    expect(equal(await unpack(packed), outcome)).toBe(true);
    expect(source.loads).toBe(2);
  });

  it('stay in use when that fails, which is reported once per attempt', async () => {
    const { source, clock, pack, unpack, stale } = await withSource();
    const packed = await pack(outcome);
    const down = new Error('the KMS is down');
    source.answer = () => Promise.reject(down);
    for (const times of [1, 2]) {
      await clock.advance(MINUTES_MS);
      expect(equal(await unpack(packed), outcome)).toBe(true);
      await clock.advance(0);
      expect(equal(await unpack(await pack(outcome)), outcome)).toBe(true);
      expect(stale).toEqual(Array.from({ length: times }, () => down));
    }
  });

  it('stay in use when what is loaded is no set of keys', async () => {
    const { source, clock, pack, unpack, stale } = await withSource();
    const packed = await pack(outcome);
    source.current = 'gone';
    await clock.advance(MINUTES_MS);
    await unpack(packed);
    await clock.advance(0);
    expect(stale).toMatchObject([{ code: 'idempotency_options_invalid' }]);
    expect(sealOf(await pack(outcome)).keyId).toBe('k1');
  });

  it('are given up after ten seconds', async () => {
    const { source, clock, pack, stale } = await withSource();
    let given: AbortSignal | undefined;
    source.answer = (signal) => new Promise(() => void (given = signal));
    await clock.advance(MINUTES_MS);
    await pack(outcome);
    await clock.advance(9_999);
    expect([given?.aborted, stale.length]).toEqual([false, 0]);
    await clock.advance(1);
    expect([given?.aborted, stale.length]).toEqual([true, 1]);
  });

  it('are not waited for after the end', async () => {
    const { source, clock, transform, pack, stale } = await withSource();
    let given: AbortSignal | undefined;
    source.answer = (signal) => new Promise(() => void (given = signal));
    await clock.advance(MINUTES_MS);
    await pack(outcome);
    await transform.close();
    await clock.advance(2 * MINUTES_MS);
    await pack(outcome);
    expect([given?.aborted, stale, source.loads, clock.timerCount]).toEqual([true, [], 2, 0]);
  });

  it('fail the start with the error of their source', async () => {
    const down = new Error('the KMS is down');
    const load = () => Promise.reject(down);
    const transform = new OutcomeTransform({ load }, new StandingClock());
    await expect(transform.open()).rejects.toBe(down);
  });

  it('have their own interval', async () => {
    const [source, clock] = [
      Object.assign(new Source(), { refresh: '1m' as const }),
      new StandingClock(),
    ];
    const { pack } = await opened(source, {}, clock);
    await clock.advance(60_000);
    await pack(outcome);
    expect(source.loads).toBe(2);
  });
});

describe('an outcome whose body ends before its record', () => {
  const RETENTION_MS = 60_000;
  const END_MS = 50_000;

  it.each([
    ['in clear', undefined],
    ['encrypted', KEYS],
  ])('%s: it is there until then, and from then on only that it is done', async (_, keys) => {
    const { pack, unpack } = await opened(keys, { bodyRetention: RETENTION_MS - END_MS });
    const packed = await pack(orders(3));
    expect(equal(await unpack(packed, BINDING, RETENTION_MS), orders(3))).toBe(true);
    expect(equal(await unpack(packed, BINDING, END_MS + 1), orders(3))).toBe(true);
    for (const leftMs of [END_MS, 1, 0, -1]) {
      expect(await unpack(packed, BINDING, leftMs)).toBe(NOT_KEPT);
    }
  });

  it('is not longer there by any changed bit, and is reported as changed when it is over', async () => {
    const { pack, unpack } = await opened(KEYS, { bodyRetention: RETENTION_MS - END_MS });
    const packed = await pack(orders(1));
    for (let bit = 0; bit < packed.body.length * 8; bit += 1) {
      const body = Buffer.from(packed.body);
      body[bit >> 3]! ^= 1 << (bit & 7);
      for (const leftMs of [RETENTION_MS, END_MS]) {
        const read = await unpack({ header: packed.header, body }, BINDING, leftMs).catch(
          (error: unknown) => error,
        );
        // Without a key of that id, what is over can be told to be so.
        if (read !== NOT_KEPT) expect(read).toBeInstanceOf(UnreadableOutcome);
        else expect(bit >> 3).toBeLessThan(5);
      }
    }
  });

  it('is over without its key, too', async () => {
    const { pack } = await opened(KEYS, { bodyRetention: RETENTION_MS - END_MS });
    const packed = await pack(orders(3));
    const other = staticKeys({ current: 'k2', keys: { k2: keyOf(2) } });
    const { unpack } = await opened(other);
    expect(await unpack(packed, BINDING, END_MS)).toBe(NOT_KEPT);
    expect(await reasonOf(() => unpack(packed, BINDING, RETENTION_MS))).toBe('key');
  });

  it('is not larger where the body lives as long as its record', async () => {
    const plain = await opened(undefined, { bodyRetention: RETENTION_MS });
    expect(await plain.pack(orders(3))).toEqual(orders(3));
  });
});
