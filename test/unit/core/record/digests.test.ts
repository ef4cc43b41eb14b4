import { createHash, createHmac, createSecretKey, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import type { Scope } from 'nestjs-idempotency/store';
import { protectedBy, received } from '../../../support/engine/digest-protection.js';
import { Worker } from '../../../support/engine/worker.js';
import { Digests, fingerprint, NO_FINGERPRINT } from '../../../support/internals/core.js';
import { MemoryIdempotencyStore } from '../../../support/internals/memory.js';

interface Named {
  readonly tag: string;
  readonly recordKey: string;
  readonly fingerprint: string;
}

/** Made by another program, in another language. */
const { key: KEY, names: VECTORS } = JSON.parse(
  readFileSync(join(import.meta.dirname, 'digests.vectors.json'), 'utf8'),
) as {
  readonly key: string;
  readonly names: readonly {
    readonly name: string;
    readonly service?: string;
    readonly operation?: string;
    readonly scope: readonly (string | number | { readonly bigint: string })[];
    readonly key: string;
    readonly content: readonly string[] | null;
    readonly plain: Omit<Named, 'tag'>;
    readonly byScopeTagParts: Readonly<Record<'all' | '1', Named>>;
  }[];
};

const scopeOf = (parts: (typeof VECTORS)[number]['scope']): Scope =>
  parts.map((part) => (typeof part === 'object' ? BigInt(part.bigint) : part));

describe('The name of a record', () => {
  it.each(VECTORS)('is what it always was: $name', ({ plain, byScopeTagParts, ...vector }) => {
    const { service, operation, key, content } = vector;
    const scope = scopeOf(vector.scope);
    const plainFingerprint = content === null ? NO_FINGERPRINT : fingerprint(content);
    expect(new Digests(service).recordKey(scope, operation, key)).toBe(plain.recordKey);
    expect(plainFingerprint).toBe(plain.fingerprint);
    for (const [parts, { tag, ...name }] of Object.entries(byScopeTagParts)) {
      const keys = [createSecretKey(Buffer.from(KEY, 'hex')), undefined];
      const scopeTagParts = parts === 'all' ? Infinity : Number(parts);
      const digests = new Digests(service, { keys: () => keys, scopeTagParts });
      const identified = { scope, caller: scope, operation, key };
      expect(digests.names(identified, plainFingerprint)).toEqual([name, plain]);
      const leading = scope.slice(0, scopeTagParts);
      expect(digests.scopePrefixes(leading)).toEqual([tag]);
      expect(name.recordKey.startsWith(tag)).toBe(true);
    }
  });

  it('has as many characters with a digest key as without one', () => {
    const [keyed, plain] = namesOf(['alice'], 'one');
    expect(keyed).toHaveLength(43);
    expect(plain).toHaveLength(43);
    expect(keyed).toMatch(/^[\w-]+$/);
  });

  it('begins as all of its scope do, and as no other scope', () => {
    const prefix = prefixOf(['acme', 'alice']);
    expect(prefix).toHaveLength(12);
    for (const key of ['one', 'two'])
      expect(namesOf(['acme', 'alice'], key)[0]).toMatch(startOf(prefix));
    for (const other of [['acme', 'bob'], ['acme'], ['alice', 'acme'], []]) {
      expect(prefixOf(other)).not.toBe(prefix);
    }
  });

  it('begins as all of the tenant do with "scopeTagParts" 1', () => {
    const prefix = prefixOf(['acme'], 1);
    for (const user of ['alice', 'bob']) {
      expect(namesOf(['acme', user], 'one', 1)[0]).toMatch(startOf(prefix));
    }
    expect(namesOf(['other', 'alice'], 'one', 1)[0]).not.toMatch(startOf(prefix));
    // Two users are two records all the same.
    expect(namesOf(['acme', 'alice'], 'one', 1)).not.toEqual(namesOf(['acme', 'bob'], 'one', 1));
  });

  it('cannot be found by a scope that has a tag in common with others', () => {
    expect(() => prefixOf(['acme', 'alice'], 1)).toThrow(
      'The records of a scope of 2 parts cannot be told from those of others',
    );
  });

  it('of a message begins as other records of its caller, not as all of its consumer', () => {
    const { engine } = new Worker(
      new MemoryIdempotencyStore(),
      {},
      undefined,
      undefined,
      protectedBy([1]),
    );
    const { recordKey } = engine.requestOf(
      received({ scope: ['queue', 'alice'], transport: 'message' }),
    );
    const call = engine.requestOf(received({ scope: ['alice'], transport: 'call' }));
    expect(recordKey.slice(0, 12)).toBe(call.recordKey.slice(0, 12));
    expect(recordKey).not.toBe(call.recordKey);
  });

  it('has no digest in common with another key, another use or another service', () => {
    const digests = new Set<string>();
    for (const service of [undefined, 'billing']) {
      for (const key of [1, 2]) {
        const digest = new Digests(service, protectedBy([key]));
        const [{ recordKey, fingerprint: content }] = digest.names(IDENTIFIED, CONTENT);
        digests.add(recordKey.slice(0, 12)).add(recordKey.slice(12)).add(content!);
      }
    }
    expect(digests.size).toBe(12);
  });
});

describe('A fingerprint with a digest key', () => {
  it('differs between two records of the same content', () => {
    const digests = new Digests(undefined, protectedBy([1]));
    const [one] = digests.names(IDENTIFIED, CONTENT);
    const [other] = digests.names({ ...IDENTIFIED, key: 'two' }, CONTENT);
    expect(one.fingerprint).toHaveLength(22);
    expect(one.fingerprint).not.toBe(other.fingerprint);
    expect(one.fingerprint).toBe(digests.names(IDENTIFIED, CONTENT)[0].fingerprint);
  });

  it('is none where content is not compared', () => {
    const digests = new Digests(undefined, protectedBy([1]));
    expect(digests.names(IDENTIFIED, NO_FINGERPRINT)[0].fingerprint).toBe('-');
  });
});

describe('Who reads the store and guesses', () => {
  const USERS = Array.from({ length: 2_000 }, (_, index) => index);
  const AMOUNTS = Array.from({ length: 2_000 }, (_, index) => ['pay', `{"amount":${index}}`]);
  /** They know the code, the operation and the key of the client, and have a key of their own. */
  const THEIRS = createSecretKey(randomBytes(32));
  const sha256 = (text: string) => createHash('sha256').update(text).digest('base64url');
  const textOf = (user: number) => `os3:pay1;n${String(user).length}:${user}s3:one`;

  const stored = (keys: readonly (number | 'none')[]) =>
    new Digests(undefined, protectedBy(keys)).names(
      { scope: [1_234], caller: [1_234], operation: 'pay', key: 'one' },
      fingerprint(['pay', '{"amount":1250}']),
    )[0];

  it('finds the user and the amount of a record without a digest key', () => {
    const { recordKey, fingerprint: content } = stored(['none']);
    expect(USERS.filter((user) => sha256(textOf(user)) === recordKey)).toEqual([1_234]);
    expect(AMOUNTS.filter((parts) => fingerprint(parts) === content)).toEqual([
      ['pay', '{"amount":1250}'],
    ]);
  });

  it('finds neither with one', () => {
    const { recordKey, fingerprint: content } = stored([1]);
    const hmac = (text: string) => createHmac('sha256', THEIRS).update(text).digest('base64url');
    const theirs = new Digests(undefined, { keys: () => [THEIRS], scopeTagParts: Infinity });
    const guesses = USERS.flatMap((user) => {
      const scope = [user];
      const [own] = theirs.names({ scope, caller: scope, operation: 'pay', key: 'one' });
      return [sha256(textOf(user)), hmac(textOf(user)), own.recordKey];
    });
    const parts = (text: string) => [text.slice(0, 12), text.slice(12), text.slice(0, 31)];
    const guessed = new Set(guesses.flatMap(parts));
    expect(parts(recordKey).filter((part) => guessed.has(part))).toEqual([]);
    const contents = AMOUNTS.map((each) => fingerprint(each));
    const hmacs = contents.flatMap((each) => [hmac(each), hmac(recordKey + each)]);
    expect([...contents, ...hmacs.map((each) => each.slice(0, 22))]).not.toContain(content);
  });
});

const IDENTIFIED = { scope: ['alice'], caller: ['alice'], operation: 'pay', key: 'one' };
const CONTENT = fingerprint(['pay', 'the payload']);

const startOf = (prefix: string) => new RegExp(`^${prefix}`);

function namesOf(scope: Scope, key: string, scopeTagParts?: number): string[] {
  const digests = new Digests('billing', protectedBy([1, 'none'], scopeTagParts));
  return digests
    .names({ scope, caller: scope, operation: 'pay', key })
    .map((name) => name.recordKey);
}

function prefixOf(scope: Scope, scopeTagParts?: number): string {
  const [prefix, ...others] = new Digests(
    'billing',
    protectedBy([1, 'none'], scopeTagParts),
  ).scopePrefixes(scope);
  // Names without a key have none.
  expect(others).toEqual([]);
  return prefix!;
}
