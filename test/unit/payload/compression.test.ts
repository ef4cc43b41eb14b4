import { randomBytes } from 'node:crypto';
import { constants, deflateRawSync } from 'node:zlib';
import { describe, expect, it } from '@jest/globals';
import {
  ALGORITHMS,
  decodeFrame,
  encodeHead,
  FRAME_HEADER,
  isAvailable,
} from '../../support/internals/payload.js';
import { equal, opened, orders, outcomeOf, reasonOf } from './support.js';

const algorithms = ALGORITHMS.filter(isAvailable);

/** A frame of compressed content, whatever that is. */
function frameOf(algorithm: (typeof ALGORITHMS)[number], clearBytes: number, content: Uint8Array) {
  const head = encodeHead({ isPointer: false, compression: { algorithm, clearBytes } });
  return { header: FRAME_HEADER, body: Buffer.concat([head, content]) };
}

/** 1 GiB of zeros: one block of 16 MiB, again and again. */
function bomb(): Buffer {
  const block = deflateRawSync(Buffer.alloc(2 ** 24), { finishFlush: constants.Z_FULL_FLUSH });
  const end = deflateRawSync(Buffer.alloc(0));
  return Buffer.concat([...Array.from({ length: 64 }, () => block), end]);
}

describe('compression', () => {
  describe.each(algorithms)('by %s', (algorithm) => {
    const given = { compression: { algorithm, thresholdBytes: 64 } };

    it.each([2, 30, 300, 720, 8_000])('gives back %d orders, in fewer bytes', async (count) => {
      const { pack, unpack } = await opened(undefined, given);
      const outcome = orders(count);
      const packed = await pack(outcome);
      expect(packed.header).toBe(FRAME_HEADER);
      expect(packed.body.length).toBeLessThan(outcome.body.length);
      expect(equal(await unpack(packed), outcome)).toBe(true);
    });

    it('makes 64 KB of JSON at most 0.35 of their size', async () => {
      const { pack } = await opened(undefined, given);
      const outcome = orders(720);
      expect(outcome.body.length).toBeGreaterThan(64_000);
      const packed = await pack(outcome);
      expect(packed.body.length / outcome.body.length).toBeLessThan(0.35);
    });

    it('spends more time for fewer bytes at a higher level', async () => {
      const outcome = orders(720);
      const [least, most] = await Promise.all(
        [1, 9].map(async (level) => {
          const { pack } = await opened(undefined, { compression: { algorithm, level } });
          return (await pack(outcome)).body.length;
        }),
      );
      expect(most).toBeLessThan(least!);
    });

    it.each([30, 720])(
      'is not read where a byte of %d orders is missing or more',
      async (count) => {
        const { pack, unpack } = await opened(undefined, given);
        const { header, body } = await pack(orders(count));
        const start = decodeFrame(body).start;
        const lengths = Array.from({ length: body.length }, (_, length) => length).filter(
          (length) => count < 100 || length < start + 20 || length > body.length - 20,
        );
        for (const length of lengths) {
          expect(await reasonOf(() => unpack({ header, body: body.subarray(0, length) }))).toBe(
            'format',
          );
        }
        const longer = { header, body: Buffer.concat([body, Buffer.of(0)]) };
        expect(await reasonOf(() => unpack(longer))).toBe('format');
      },
    );

    it.each([30, 720])(
      'is not read where it has not the length that it says: %d',
      async (count) => {
        const { pack, unpack } = await opened(undefined, given);
        const { head, bytes, start } = decodeFrame((await pack(orders(count))).body);
        const content = bytes.subarray(start);
        const { clearBytes } = head.compression!;
        for (const other of [0, 1, clearBytes - 1, clearBytes + 1, 2 * clearBytes, 67_108_864]) {
          expect(await reasonOf(() => unpack(frameOf(algorithm, other, content)))).toBe('format');
        }
      },
    );
  });

  it('is not tried below the threshold, of header and body', async () => {
    const text = outcomeOf(Buffer.alloc(1_024 - 14, 'a'));
    const { pack } = await opened(undefined, { compression: true });
    expect((await pack(text)).header).toBe(FRAME_HEADER);
    const less = outcomeOf(Buffer.alloc(1_024 - 15, 'a'));
    expect(await pack(less)).toBe(less);
    const off = await opened(undefined, {});
    expect(await off.pack(text)).toBe(text);
  });

  it.each([100, 5_000, 50_000])(
    'leaves what is compact already as it is: %d bytes',
    async (size) => {
      const { pack } = await opened(undefined, { compression: { thresholdBytes: 64 } });
      const image = outcomeOf(randomBytes(size));
      expect(await pack(image)).toBe(image);
    },
  );

  it('judges by the beginning', async () => {
    const { pack } = await opened(undefined, { compression: true });
    const outcome = outcomeOf(Buffer.concat([randomBytes(4_096), Buffer.alloc(100_000)]));
    expect(await pack(outcome)).toBe(outcome);
  });

  it('leaves what would not be smaller by an eighth', async () => {
    const { pack } = await opened(undefined, { compression: { thresholdBytes: 64 } });
    // Zeros vanish, and the frame adds some bytes.
    const almost = outcomeOf(Buffer.concat([randomBytes(880), Buffer.alloc(120)]));
    expect(await pack(almost)).toBe(almost);
    const enough = outcomeOf(Buffer.concat([randomBytes(780), Buffer.alloc(220)]));
    expect((await pack(enough)).header).toBe(FRAME_HEADER);
  });

  it.each([100, 40_000])(
    'never inflates more than %d bytes where a frame says so',
    async (bytes) => {
      const { unpack } = await opened();
      const frame = frameOf('deflate', bytes, bomb());
      const before = process.resourceUsage().maxRSS;
      expect(await reasonOf(() => unpack(frame))).toBe('format');
      // In KB, of 1 GiB.
      expect(process.resourceUsage().maxRSS - before).toBeLessThan(200_000);
    },
  );

  it('cannot be read by a version of Node that lacks the algorithm', async () => {
    if (isAvailable('zstd')) return;
    const { unpack } = await opened();
    expect(await reasonOf(() => unpack(frameOf('zstd', 1, Buffer.alloc(10))))).toBe('algorithm');
  });

  describe('with a dictionary', () => {
    const sample = orders(2).body;
    const small = orders(1);
    const withSample = {
      compression: { thresholdBytes: 64 },
      dictionaries: { write: 7, byId: { 7: sample } },
    };

    it('makes also a small outcome smaller', async () => {
      const { pack, unpack } = await opened(undefined, withSample);
      const packed = await pack(small);
      expect(packed.body.length / small.body.length).toBeLessThan(0.6);
      expect(equal(await unpack(packed), small)).toBe(true);
      // Readers have it before a writer uses it.
      const reader = await opened(undefined, { dictionaries: { byId: { 7: sample } } });
      expect(equal(await reader.unpack(packed), small)).toBe(true);
      expect(await reader.pack(small)).toBe(small);
    });

    it.each<[string, Record<number, Uint8Array>]>([
      ['is not there', {}],
      ['has another id', { 8: sample }],
      ['is another one', { 7: orders(3).body }],
      [
        'was changed by a bit',
        { 7: Buffer.concat([Buffer.of(sample[0]! ^ 1), sample.subarray(1)]) },
      ],
    ])('is not read where the dictionary %s', async (_, byId) => {
      const { pack } = await opened(undefined, withSample);
      const { unpack } = await opened(undefined, { dictionaries: { byId } });
      const packed = await pack(small);
      expect(await reasonOf(() => unpack(packed))).toBe('dictionary');
    });

    it('does not use it for another algorithm', async () => {
      const compression = { algorithm: 'brotli', thresholdBytes: 64 } as const;
      const { pack } = await opened(undefined, { ...withSample, compression });
      const unaware = await opened();
      expect(equal(await unaware.unpack(await pack(orders(30))), orders(30))).toBe(true);
    });
  });
});
