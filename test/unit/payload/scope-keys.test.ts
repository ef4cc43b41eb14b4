import { createSecretKey, type KeyObject } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { type SecretKeys, staticKeys } from 'nestjs-idempotency';
import type { Scope } from 'nestjs-idempotency/store';
import { StandingClock } from '../../support/clocks/standing-clock.js';
import {
  type Fingerprint,
  type Outcome,
  originOf,
  parseOrigin,
} from '../../support/internals/core.js';
import { decodeFrame, type OriginBinding } from '../../support/internals/payload.js';
import { BINDING, equal, keyOf, KEYS, opened, orders, reasonOf } from './support.js';

const MINUTES_MS = 300_000;
const keyIdOf = ({ body }: Outcome) => decodeFrame(body).head.seal!.keyId;
const of = (...scope: Scope) => ({ ...BINDING, scope });

/** A key for each tenant that has one, in versions; what is deleted is gone. */
class Tenants implements SecretKeys {
  readonly load = KEYS.load.bind(KEYS);
  readonly asked: (readonly [Scope, string | undefined])[] = [];
  readonly versions = new Map<unknown, Map<string, KeyObject>>();
  fails: Error | undefined;

  add(tenant: string, id: string): void {
    const versions = this.versions.get(tenant) ?? new Map<string, KeyObject>();
    versions.set(id, createSecretKey(keyOf(id.length)));
    this.versions.set(tenant, versions);
  }

  keyFor([tenant, ...others]: Scope, id: string | undefined) {
    this.asked.push([[tenant!, ...others], id]);
    if (this.fails !== undefined) return Promise.reject(this.fails);
    const versions = this.versions.get(tenant);
    const wanted = id ?? [...(versions?.keys() ?? [])].at(-1);
    const key = versions?.get(wanted!);
    // As a KMS would: a new object each time.
    return Promise.resolve(
      key === undefined ? undefined : { id: wanted!, key: createSecretKey(key.export()) },
    );
  }
}

async function withTenants() {
  const [source, clock] = [new Tenants(), new StandingClock()];
  source.add('acme', 'acme-1');
  return { source, clock, ...(await opened(source, {}, clock)) };
}

describe('A key of a tenant', () => {
  const outcome = orders(1);

  it('encrypts its outcomes, and no others', async () => {
    const { pack, unpack } = await withTenants();
    const own = await pack(outcome, of('acme', 'alice'));
    const other = await pack(outcome, of('other', 'alice'));
    expect([keyIdOf(own), keyIdOf(other)]).toEqual(['acme-1', 'k1']);
    expect(equal(await unpack(own, of('acme', 'alice')), outcome)).toBe(true);
    expect(equal(await unpack(other, of('other', 'alice')), outcome)).toBe(true);
  });

  it('is unknown to who has the other keys only', async () => {
    const { pack } = await withTenants();
    const own = await pack(outcome, of('acme'));
    const { unpack } = await opened(KEYS);
    expect(await reasonOf(() => unpack(own, of('acme')))).toBe('key');
  });

  it('that is deleted leaves its outcomes unreadable in each process within "refresh", and those of others readable', async () => {
    const { source, clock, pack, unpack } = await withTenants();
    const own = await pack(outcome, of('acme'));
    const other = await pack(outcome, of('other'));
    source.versions.delete('acme');
    await clock.advance(MINUTES_MS);
    expect(await reasonOf(() => unpack(own, of('acme')))).toBe('key');
    expect(equal(await unpack(other, of('other')), outcome)).toBe(true);
    expect(keyIdOf(await pack(outcome, of('acme')))).toBe('k1');
  });

  it('rotates: the source is asked for the id of an older one', async () => {
    const { source, clock, pack, unpack } = await withTenants();
    const first = await pack(outcome, of('acme'));
    source.add('acme', 'acme-second');
    await clock.advance(MINUTES_MS);
    expect(keyIdOf(await pack(outcome, of('acme')))).toBe('acme-second');
    expect(equal(await unpack(first, of('acme')), outcome)).toBe(true);
    expect(source.asked.at(-1)).toEqual([['acme'], 'acme-1']);
  });

  it('is asked for once in "refresh", also by many at once', async () => {
    const { source, clock, pack } = await withTenants();
    const packed = await Promise.all(Array.from({ length: 5 }, () => pack(outcome, of('acme'))));
    await pack(outcome, of('acme'));
    await pack(outcome, of('other'));
    await pack(outcome, of('other'));
    expect(source.asked).toEqual([
      [['acme'], undefined],
      [['other'], undefined],
    ]);
    await clock.advance(MINUTES_MS);
    // What is derived from it stays in use.
    expect(saltOf(await pack(outcome, of('acme')))).toBe(saltOf(packed[0]!));
    expect(source.asked).toHaveLength(3);
  });

  it('stays in use when it cannot be loaded again, which is reported', async () => {
    const { source, clock, pack, stale } = await withTenants();
    await pack(outcome, of('acme'));
    source.fails = new Error('the KMS is down');
    await clock.advance(MINUTES_MS);
    expect(keyIdOf(await pack(outcome, of('acme')))).toBe('acme-1');
    expect(stale).toEqual([source.fails]);
  });

  it('that was never loaded encrypts nothing, in place of the current key, and decrypts nothing', async () => {
    const { source, pack, unpack, stale } = await withTenants();
    const { pack: packElsewhere } = await withTenants();
    const own = await packElsewhere(outcome, of('acme'));
    source.fails = new Error('the KMS is down');
    await expect(pack(outcome, of('acme'))).rejects.toBe(source.fails);
    expect(await reasonOf(() => unpack(own, of('acme')))).toBe('key');
    expect(stale).toEqual([source.fails, source.fails]);
    source.fails = undefined;
    expect(equal(await unpack(own, of('acme')), outcome)).toBe(true);
  });

  it('may be null, as a database says that there is none', async () => {
    const { pack } = await opened({ ...KEYS, keyFor: () => Promise.resolve(null) });
    expect(keyIdOf(await pack(outcome, of('acme')))).toBe('k1');
  });

  it('may be one that all have, under its id', async () => {
    const { keys } = await KEYS.load(new AbortController().signal);
    const keyFor = () => Promise.resolve({ id: 'k1', key: keys.get('k1')! });
    const { pack, unpack } = await opened({ ...KEYS, keyFor });
    expect(equal(await unpack(await pack(outcome, of('acme')), of('acme')), outcome)).toBe(true);
  });

  it('stays in use where another key has its id, which is reported', async () => {
    const { source, clock, pack, unpack, stale } = await withTenants();
    const first = await pack(outcome, of('acme'));
    expect(equal(await unpack(first, of('acme')), outcome)).toBe(true);
    source.versions.get('acme')!.set('acme-1', createSecretKey(keyOf(77)));
    await clock.advance(MINUTES_MS);
    expect(saltOf(await pack(outcome, of('acme')))).toBe(saltOf(first));
    expect(equal(await unpack(first, of('acme')), outcome)).toBe(true);
    const message = expect.stringMatching(/"acme-1" is that of another key already/);
    expect(stale).toMatchObject([{ message }, { message }]);
  });

  it('is refused unless it is one, with an id of its own', async () => {
    for (const [id, length, message] of [
      ['a b', 32, 'The id of a key must have'],
      ['a', 16, 'no secret KeyObject of 32 bytes'],
      ['k1', 32, 'The id "k1" is that of another key already'],
    ] as const) {
      const key = createSecretKey(Buffer.alloc(length));
      const keyFor = () => Promise.resolve({ id, key });
      const { pack } = await opened({ ...KEYS, keyFor });
      await expect(pack(outcome, of('acme'))).rejects.toThrow(message);
    }
  });
});

describe('The origin of a record in progress', () => {
  const ORIGIN = { operation: 'payments.create', scope: ['acme', 7n], key: 'a3f1' };
  const TEXT = originOf(ORIGIN, 'billing');
  const PLACE = {
    recordKey: BINDING.recordKey,
    fingerprint: BINDING.fingerprint,
    state: 'in_progress',
  } as OriginBinding;

  it('is encrypted with keys, and shows nothing of itself', async () => {
    const { transform } = await opened(KEYS);
    const sealed = transform.packOrigin(TEXT, PLACE);
    expect(sealed).toMatch(/^\.[\w-]+$/);
    const bytes = Buffer.from(sealed, 'base64url').toString('latin1');
    expect(bytes).not.toMatch(/payments|acme|a3f1|billing/);
    expect(sealed).not.toContain(TEXT.slice(4, 12));
    expect(parseOrigin(sealed)).toBeUndefined();
    const clear = await transform.unpackOrigin(sealed, PLACE);
    expect(clear).toBe(TEXT);
    expect(parseOrigin(clear!)).toEqual({ ...ORIGIN, service: 'billing' });
  });

  it('stays as it is without keys, and is read in clear by all', async () => {
    const [without, reader] = [await opened(), await opened(KEYS)];
    expect(without.transform.packOrigin(TEXT, PLACE)).toBe(TEXT);
    expect(await reader.transform.unpackOrigin(TEXT, PLACE)).toBe(TEXT);
  });

  it('is that of no other record or content', async () => {
    const { transform } = await opened(KEYS);
    const sealed = transform.packOrigin(TEXT, PLACE);
    for (const other of [
      { ...PLACE, recordKey: `b${PLACE.recordKey.slice(1)}` as OriginBinding['recordKey'] },
      { ...PLACE, fingerprint: '-' as Fingerprint },
    ]) {
      expect(await transform.unpackOrigin(sealed, other)).toBeUndefined();
    }
  });

  it('is not read by who has not its key, or where it was changed', async () => {
    const { transform } = await opened(KEYS);
    const sealed = transform.packOrigin(TEXT, PLACE);
    const others = [
      await opened(),
      await opened(staticKeys({ current: 'k2', keys: { k2: keyOf(1) } })),
    ];
    for (const reader of others) {
      expect(await reader.transform.unpackOrigin(sealed, PLACE)).toBeUndefined();
    }
    for (const changed of [
      '.',
      '.AA',
      sealed.slice(0, -4),
      `${sealed.slice(0, 60)}${sealed[60] === 'A' ? 'B' : 'A'}${sealed.slice(61)}`,
    ]) {
      expect(await transform.unpackOrigin(changed, PLACE)).toBeUndefined();
    }
  });
});

function saltOf({ body }: Outcome): string {
  return Buffer.from(decodeFrame(body).head.seal!.salt).toString('hex');
}
