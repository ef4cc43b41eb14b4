import { createPublicKey, createSecretKey, generateKeyPairSync, randomBytes } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import {
  envelopeKeys,
  IdempotencyOptionsError,
  type SecretKeys,
  staticKeys,
} from 'nestjs-idempotency';
import { StandingClock } from '../../support/clocks/standing-clock.js';
import { checkSecretKeys, isAvailable, OutcomeTransform } from '../../support/internals/payload.js';
import { keyOf, KEYS, optionsOf, type PackOptions } from './support.js';

const KEY = randomBytes(32);
const NO_SIGNAL = new AbortController().signal;

/** The message with which something is refused: it shows no part of the key. */
async function refused(action: () => unknown): Promise<string> {
  const error: unknown = await Promise.resolve()
    .then(action)
    .then(
      () => undefined,
      (reason: unknown) => reason,
    );
  expect(error).toBeInstanceOf(IdempotencyOptionsError);
  const { message } = error as Error;
  for (const encoding of ['base64', 'base64url', 'hex', 'latin1'] as const) {
    const text = KEY.toString(encoding);
    for (let at = 0; at + 8 <= text.length; at += 1) {
      expect(message).not.toContain(text.slice(at, at + 8));
    }
  }
  return message;
}

describe('static keys', () => {
  it.each([
    ['base64', KEY.toString('base64')],
    ['base64 without padding', KEY.toString('base64').replace('=', '')],
    ['base64url', KEY.toString('base64url')],
    ['a Buffer', KEY],
    ['a Uint8Array', Uint8Array.from(KEY)],
    ['a KeyObject', createSecretKey(KEY)],
  ])('may be given as %s', async (_, key) => {
    const { current, keys } = await staticKeys({
      current: '2026-11',
      keys: { '2026-11': key },
    }).load(NO_SIGNAL);
    expect(current).toBe('2026-11');
    expect(keys.get('2026-11')?.export()).toEqual(KEY);
  });

  it.each<[string, unknown]>([
    ['31 bytes', KEY.subarray(1)],
    ['33 bytes', Buffer.concat([KEY, Buffer.of(0)])],
    ['31 bytes of base64', KEY.subarray(1).toString('base64')],
    ['hex', KEY.toString('hex')],
    ['two alphabets', `-${KEY.toString('base64').slice(1, 41)}/A=`],
    ['white space', ` ${KEY.toString('base64')}`],
    ['bits that belong to no byte', `${KEY.toString('base64').slice(0, 42)}B=`],
    ['an empty text', ''],
    ['a number', 7],
    ['nothing', undefined],
    ['a KeyObject of 16 bytes', createSecretKey(KEY.subarray(16))],
    ['a public key', createPublicKey(generateKeyPairSync('ed25519').privateKey)],
  ])('are refused where one is %s', async (_, key) => {
    const keys = { k1: keyOf(1), k2: key } as never;
    expect(await refused(() => staticKeys({ current: 'k1', keys }))).toContain(
      'staticKeys(): The key "k2" is not a key of 32 bytes',
    );
  });

  it.each(['', 'with space', 'ä', 'a'.repeat(33), KEY.toString('base64url')])(
    'are refused with the id %p',
    async (id) => {
      const message = await refused(() => staticKeys({ current: id, keys: { [id]: KEY } }));
      expect(message).toContain('The id of a key must have 1 to 32 characters');
    },
  );

  it('are refused where the current one is none of them', async () => {
    const text = KEY.toString('base64');
    for (const current of ['k2', text, undefined as never]) {
      const message = await refused(() => staticKeys({ current, keys: { k1: text } }));
      expect(message).toBe('staticKeys(): "current" must be the id of one of the keys.');
    }
  });

  it.each([
    undefined,
    null,
    KEY.toString('base64'),
    { current: 'k1' },
    { current: 'k1', keys: 'k1' },
  ])('are refused in the place of options: case %#', async (given) => {
    await refused(() => staticKeys(given as never));
  });
});

describe('keys in envelopes', () => {
  const wrapped = {
    k1: Buffer.from('one').toString('base64'),
    k2: Buffer.from('two').toString('base64url'),
  };

  it('are unwrapped once each', async () => {
    const asked: unknown[] = [];
    const unwrap = (id: string, bytes: Uint8Array) => {
      asked.push([id, Buffer.from(bytes).toString()]);
      return Promise.resolve(Uint8Array.from(keyOf(id === 'k1' ? 1 : 2)));
    };
    const secrets = envelopeKeys({ current: 'k2', wrapped, unwrap });
    for (let times = 0; times < 2; times += 1) {
      const { current, keys } = await secrets.load(NO_SIGNAL);
      expect([current, keys.get('k1')?.export(), keys.get('k2')?.export()]).toEqual([
        ...['k2', keyOf(1), keyOf(2)],
      ]);
    }
    expect(asked).toEqual([
      ['k1', 'one'],
      ['k2', 'two'],
    ]);
  });

  it('are asked for again where that has failed', async () => {
    const down = new Error('the KMS is down');
    const replies = [Promise.reject(down), Promise.resolve(KEY)];
    const unwrap = () => replies.shift()!;
    const secrets = envelopeKeys({ current: 'k1', wrapped: { k1: wrapped.k1 }, unwrap });
    await expect(secrets.load(NO_SIGNAL)).rejects.toBe(down);
    const { keys } = await secrets.load(NO_SIGNAL);
    expect(keys.get('k1')?.export()).toEqual(KEY);
  });

  it('are refused where what is unwrapped is no key', async () => {
    const unwrap = () => Promise.resolve(KEY.subarray(1));
    const secrets = envelopeKeys({ current: 'k1', wrapped, unwrap });
    expect(await refused(() => secrets.load(NO_SIGNAL))).toContain('"unwrap" returned for the key');
  });

  it.each([
    [{ current: 'k3' }, '"current" must be'],
    [{ wrapped: { ...wrapped, k3: 'not base64!' } }, 'The wrapped key "k3" is no text in base64.'],
    [{ wrapped: undefined as never }, '"wrapped" must be an object'],
    [{ unwrap: 'unwrap' as never }, '"unwrap" must be a function'],
  ])('are refused with %j', async (wrong, problem) => {
    const unwrap = () => Promise.resolve(KEY);
    const options = { current: 'k1', wrapped, unwrap, ...wrong };
    expect(await refused(() => envelopeKeys(options))).toContain(problem);
  });
});

describe('keys of a source of one’s own', () => {
  it.each<[string, unknown]>([
    ['nothing', undefined],
    ['no Map', { current: 'k1', keys: { k1: createSecretKey(KEY) } }],
    ['bytes', { current: 'k1', keys: new Map([['k1', KEY]]) }],
    ['another current one', { current: 'k2', keys: new Map([['k1', createSecretKey(KEY)]]) }],
    ['an id that is none', { current: '', keys: new Map([['', createSecretKey(KEY)]]) }],
  ])('stop the start where it gives %s', async (_, loaded) => {
    const secrets = { load: () => Promise.resolve(loaded) } as SecretKeys;
    const transform = new OutcomeTransform(secrets, new StandingClock());
    expect(await refused(() => transform.open())).toContain('secrets: ');
  });
});

describe('the option "secrets"', () => {
  const refusedAs = (given: unknown) =>
    refused(() => {
      checkSecretKeys('secrets', given);
    });

  it.each([{}, KEY.toString('base64'), null, [KEY]])('is not %j', async (given) => {
    expect(await refusedAs(given)).toContain('secrets: It must be staticKeys(…)');
  });

  it('has a duration as "refresh"', async () => {
    const given = { ...KEYS, refresh: 999 };
    expect(await refusedAs(given)).toContain(
      `"secrets.refresh" must be a duration from '1s' to '24h'`,
    );
  });
});

describe('the options of packing', () => {
  const defaults = { algorithm: 'deflate', thresholdBytes: 1_024, level: 1 };

  it('are off by default', () => {
    expect(optionsOf()).toMatchObject({ compression: false });
    expect(optionsOf()).not.toHaveProperty('encryption');
  });

  it('have defaults of compression', () => {
    expect(optionsOf({ compression: true }).compression).toEqual(defaults);
    const level = { compression: { level: 9 } };
    expect(optionsOf(level).compression).toEqual({ ...defaults, level: 9 });
  });

  it.each<[string, unknown, string]>([
    ['compression', 'deflate', '"outcome.compression" must be true, false or an object'],
    [
      'compression',
      { algorithm: 'gzip' },
      '"outcome.compression.algorithm" must be "deflate", "brotli" or "zstd"',
    ],
    [
      'compression',
      { thresholdBytes: 63 },
      '"outcome.compression.thresholdBytes" must be an integer from 64 to 67108864',
    ],
    ['compression', { level: 0 }, '"outcome.compression.level" must be an integer from 1 to 22'],
    ['compression', { level: 10 }, '"outcome.compression.level" must be at most 9 with "deflate"'],
    ['compression', { algorithm: 'brotli', level: 12 }, 'at most 11 with "brotli"'],
    ['encryption', 'on', '"outcome.encryption" must be true or false'],
    ['dictionaries', {}, '"outcome.dictionaries" must be an object with "byId"'],
    ['dictionaries', { byId: { 1: KEY }, other: 1 }, '"outcome.dictionaries" must be an object'],
    ['dictionaries', { byId: { 0: KEY } }, '"outcome.dictionaries.byId" must be a Uint8Array'],
    ['dictionaries', { byId: { 256: KEY } }, '"outcome.dictionaries.byId" must be a Uint8Array'],
    ['dictionaries', { byId: { 1: 'text' } }, '"outcome.dictionaries.byId" must be a Uint8Array'],
    [
      'dictionaries',
      { byId: { 1: Buffer.alloc(0) } },
      '"outcome.dictionaries.byId" must be a Uint8Array',
    ],
    ['dictionaries', { byId: { 1: Buffer.alloc(32_769) } }, 'of 1 to 32768 bytes'],
    ['dictionaries', { write: 2, byId: { 1: KEY } }, '"outcome.dictionaries.write" must be the id'],
  ])('refuse %s: %j', async (name, value, problem) => {
    const given = { [name]: value } as PackOptions;
    expect(await refused(() => optionsOf(given))).toContain(problem);
  });

  it('refuse an algorithm that this version of Node lacks, and say what to do', async () => {
    const zstd = { compression: { algorithm: 'zstd' } } as const;
    if (isAvailable('zstd'))
      expect(optionsOf(zstd)).toHaveProperty('compression.algorithm', 'zstd');
    else expect(await refused(() => optionsOf(zstd))).toContain("'zstd' needs Node 22.15 or later");
  });

  it('copy a dictionary', () => {
    const bytes = Buffer.from('a dictionary');
    const { dictionaries } = optionsOf({ dictionaries: { write: 1, byId: { 1: bytes } } });
    bytes.fill(0);
    expect(Buffer.from(dictionaries!.write!.bytes).toString()).toBe('a dictionary');
  });
});

describe('digest keys', () => {
  const GIVEN = { current: 'k1', keys: { k1: keyOf(1), names: keyOf(2), next: keyOf(3) } };

  it.each([[['names']], [['names', 'next']], [['next', 'names', 'none']]])(
    'are named by their ids: %j',
    async (digestKeys) => {
      const loaded = await staticKeys({ ...GIVEN, digestKeys }).load(NO_SIGNAL);
      expect(loaded.digestKeys).toEqual(digestKeys);
      const wrapped = Object.fromEntries(
        Object.entries(GIVEN.keys).map(([id, key]) => [id, key.toString('base64')] as const),
      );
      const unwrap = (_id: string, bytes: Uint8Array) => Promise.resolve(bytes);
      const source = envelopeKeys({ current: 'k1', wrapped, unwrap, digestKeys });
      expect(await source.load(NO_SIGNAL)).toEqual(loaded);
    },
  );

  it.each<[string, unknown]>([
    ['no list', 'names'],
    ['an empty list', []],
    ['a key without an id', [keyOf(2)]],
    ['an id that no key has', ['names', 'other']],
    ['an id twice', ['names', 'names']],
    ['too many', ['names', 'next', 'none', 'k1']],
  ])('are refused where they are %s', async (_, digestKeys) => {
    const message = await refused(() => staticKeys({ ...GIVEN, digestKeys: digestKeys as never }));
    expect(message).toContain('"digestKeys" must be a list of 1 to 3 different ids of keys');
  });

  it('are refused where one is the current key', async () => {
    const message = await refused(() => staticKeys({ ...GIVEN, digestKeys: ['k1'] }));
    expect(message).toContain('must not have the id of "current"');
  });

  it("are refused where a key has the id 'none'", async () => {
    const keys = { ...GIVEN.keys, none: keyOf(4) };
    const message = await refused(() => staticKeys({ ...GIVEN, keys, digestKeys: ['none'] }));
    expect(message).toContain("No key may have the id 'none'");
  });

  it('stay in use when their source gives the id of one to another key', async () => {
    const clock = new StandingClock();
    const stale: unknown[] = [];
    let names = keyOf(9);
    const load = () => staticKeys({ ...GIVEN, keys: { ...GIVEN.keys, names } }).load(NO_SIGNAL);
    const { ring } = new OutcomeTransform({ load }, clock, (error) => void stale.push(error));
    await ring!.open();
    const before = ring!.find('names');
    names = keyOf(10);
    await clock.advance(300_000);
    ring!.current();
    await clock.advance(0);
    expect(ring!.find('names')).toBe(before);
    expect(String(stale)).toContain('The id "names" is that of another key already');
  });

  it('stay in use when their source no longer gives them', async () => {
    const clock = new StandingClock();
    const stale: unknown[] = [];
    let digestKeys: readonly string[] | undefined = ['names'];
    const load = () => staticKeys({ ...GIVEN, ...(digestKeys && { digestKeys }) }).load(NO_SIGNAL);
    const { ring } = new OutcomeTransform({ load }, clock, (error) => void stale.push(error));
    await ring!.open();
    const before = ring!.digestKeys();
    digestKeys = undefined;
    await clock.advance(300_000);
    ring!.digestKeys();
    await clock.advance(0);
    expect(ring!.digestKeys()).toBe(before);
    expect(String(stale)).toContain('no longer gives digest keys');
    digestKeys = ['next', 'names'];
    await clock.advance(300_000);
    ring!.digestKeys();
    await clock.advance(0);
    expect(ring!.digestKeys().map((key) => key?.export())).toEqual([keyOf(3), keyOf(2)]);
  });
});
