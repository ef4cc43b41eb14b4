import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import {
  type BlobPointer,
  decodeContent,
  decodeFrame,
  decodePointer,
  encodeContent,
  encodeHead,
  encodePointer,
  type FrameHead,
  UnreadableOutcome,
} from '../../support/internals/payload.js';
import { reasonOf } from './support.js';

const bytes = (length: number) => fc.uint8Array({ minLength: length, maxLength: length });
const text = (pattern: RegExp) => fc.stringMatching(pattern);

const heads: fc.Arbitrary<FrameHead> = fc.record(
  {
    seal: fc.record({
      keyId: text(/^[A-Za-z0-9._-]{1,32}$/),
      salt: bytes(8),
      nonce: bytes(12),
    }),
    compression: fc.oneof(
      fc.record({
        algorithm: fc.constantFrom('deflate', 'brotli', 'zstd'),
        clearBytes: fc.nat(67_108_864),
      }),
      fc.record({
        algorithm: fc.constant('deflate' as const),
        clearBytes: fc.nat(67_108_864),
        dictionary: fc.record({ id: fc.integer({ min: 1, max: 255 }), checksum: bytes(4) }),
      }),
    ),
    isPointer: fc.boolean(),
    endsEarlyMs: fc.nat(365 * 86_400_000),
  },
  { requiredKeys: ['isPointer'] },
);

const pointers: fc.Arbitrary<BlobPointer> = fc.record(
  {
    store: text(/^[a-z0-9-]{1,16}$/),
    name: fc.string({ minLength: 1, maxLength: 200, unit: 'grapheme' }),
    clearBytes: fc.nat(2 ** 48 - 1),
    storedBytes: fc.nat(2 ** 48 - 1),
    sha256: bytes(32),
    segmentBytes: fc.nat(2 ** 32 - 1),
    key: bytes(32),
  },
  { requiredKeys: ['store', 'name', 'clearBytes', 'storedBytes', 'sha256', 'segmentBytes'] },
);

/** Buffers as plain arrays. */
const plain = (value: unknown) =>
  JSON.parse(
    JSON.stringify(value, (_, each: unknown) =>
      ArrayBuffer.isView(each) ? [...(each as Uint8Array)] : each,
    ),
  ) as unknown;

/** What JSON makes of a Buffer before a replacer sees it. */
const comparable = (value: unknown) => {
  const read = plain(value);
  return JSON.parse(
    JSON.stringify(read).replaceAll(/\{"type":"Buffer","data":(\[[^\]]*\])\}/g, '$1'),
  ) as unknown;
};

/** A frame's body from text: hex, and white space that separates its fields. */
const hex = (given: string) => Buffer.from(given.replaceAll(/\s/g, ''), 'hex');

const ID_SALT_NONCE = '02 6b31 0001020304050607 000102030405060708090a0b';

describe('the head of a frame', () => {
  it('is read as it was written, and the content begins where it ends', () => {
    fc.assert(
      fc.property(heads, fc.uint8Array(), (head, content) => {
        const start = encodeHead(head).length;
        const bytes = Buffer.concat([encodeHead(head), content]);
        expect(comparable(decodeFrame(bytes))).toEqual(comparable({ head, bytes, start }));
      }),
    );
  });

  it('has the bytes that are documented', () => {
    const seal = {
      keyId: 'k1',
      salt: hex('0001020304050607'),
      nonce: hex('000102030405060708090a0b'),
    };
    const dictionary = { id: 7, checksum: hex('aabbccdd') };
    const written: [FrameHead, string][] = [
      [{ isPointer: false }, '02 00'],
      [{ isPointer: true }, '02 08'],
      [{ isPointer: false, seal }, `02 04 ${ID_SALT_NONCE}`],
      [
        { isPointer: false, compression: { algorithm: 'deflate', clearBytes: 1_000 } },
        '02 01 000003e8',
      ],
      [{ isPointer: false, compression: { algorithm: 'brotli', clearBytes: 1 } }, '02 02 00000001'],
      [{ isPointer: false, compression: { algorithm: 'zstd', clearBytes: 1 } }, '02 03 00000001'],
      [
        { isPointer: true, seal, compression: { algorithm: 'deflate', clearBytes: 5, dictionary } },
        `02 1d ${ID_SALT_NONCE} 00000005 07 aabbccdd`,
      ],
      [{ isPointer: false, endsEarlyMs: 82_800_000 }, '02 20 000004ef6d80'],
      [
        { isPointer: false, compression: { algorithm: 'deflate', clearBytes: 5 }, endsEarlyMs: 1 },
        '02 21 00000005 000000000001',
      ],
    ];
    for (const [head, expected] of written) {
      expect(encodeHead(head).toString('hex')).toBe(hex(expected).toString('hex'));
    }
  });

  it.each([
    ['nothing', ''],
    ['no flags', '02'],
    ['an older version', '01 00'],
    ['a newer version', '03 00'],
    ['half an end', '02 20 0000000000'],
    ['reserved bit 6', '02 40'],
    ['reserved bit 7', '02 80'],
    ['a dictionary without compression', '02 10 07 aabbccdd'],
    ['a dictionary with brotli', '02 12 00000001 07 aabbccdd'],
    ['a dictionary with zstd', '02 13 00000001 07 aabbccdd'],
    ['a dictionary of the id 0', '02 11 00000001 00 aabbccdd'],
    ['half a checksum', '02 11 00000001 07 aabb'],
    ['half a length', '02 01 0000'],
    ['a length that no outcome has', '02 01 04100001'],
    ['a key without an id', '02 04 00 0001020304050607 000102030405060708090a0b'],
    [
      'a key’s id of 33 bytes',
      `02 04 21 ${'61'.repeat(33)} 0001020304050607 000102030405060708090a0b`,
    ],
    ['a key’s id that is none', '02 04 02 6b20 0001020304050607 000102030405060708090a0b'],
    ['half a nonce', '02 04 02 6b31 0001020304050607 000102030405'],
  ])('is not read where it has %s', async (_, body) => {
    expect(await reasonOf(() => decodeFrame(hex(body)))).toBe('format');
  });
});

describe('the content of a frame', () => {
  it('is read as it was written', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.uint8Array(), (header, body) => {
        const read = decodeContent(encodeContent({ header, body }));
        expect(comparable(read)).toEqual(comparable({ header, body: Buffer.from(body) }));
      }),
    );
  });

  it.each([
    ['nothing', ''],
    ['half a length', '0000'],
    ['less header than it says', '00000003 6162'],
    ['a header that is no UTF-8', '00000002 c328'],
  ])('is not read where it has %s', async (_, content) => {
    expect(await reasonOf(() => decodeContent(hex(content)))).toBe('format');
  });
});

describe('a pointer to a blob', () => {
  it('is read as it was written', () => {
    fc.assert(
      fc.property(pointers, (pointer) => {
        expect(comparable(decodePointer(encodePointer(pointer)))).toEqual(comparable(pointer));
      }),
    );
  });

  it('is read neither with a byte less nor with a byte more', () => {
    fc.assert(
      fc.property(pointers, (pointer) => {
        const whole = encodePointer(pointer);
        expect(() => decodePointer(Buffer.concat([whole, Buffer.of(0)]))).toThrow(
          UnreadableOutcome,
        );
        for (let length = 0; length < whole.length; length += 1) {
          // Without its key, it is a pointer to a blob in clear.
          if (pointer.key !== undefined && length === whole.length - 32) continue;
          expect(() => decodePointer(whole.subarray(0, length))).toThrow(UnreadableOutcome);
        }
      }),
      { numRuns: 5 },
    );
  });

  it.each([
    ['no store', { store: '' }],
    ['a store’s id that is none', { store: 'S3' }],
    ['a store’s id of 17 characters', { store: 's'.repeat(17) }],
    ['no name', { name: '' }],
  ])('is not read where it has %s', async (_, wrong) => {
    const sizes = { clearBytes: 1, storedBytes: 1, segmentBytes: 65_536 };
    const pointer = { store: 's3', name: 'd1/a/b', sha256: Buffer.alloc(32), ...sizes, ...wrong };
    expect(await reasonOf(() => decodePointer(encodePointer(pointer)))).toBe('format');
  });
});
