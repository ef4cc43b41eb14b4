import { randomBytes } from 'node:crypto';
import { describe, expect, it, jest } from '@jest/globals';
import {
  openSegments,
  openStream,
  SEGMENT_BYTES,
  sealedSegments,
  sealedStream,
} from '../../support/internals/payload.js';
import { reasonOf } from './support.js';

const KEY = randomBytes(32);
const TAG_BYTES = 16;

const sealed = (body: Uint8Array, key = KEY) => [...sealedSegments(body, key)];
const opened = (segments: readonly Buffer[], key = KEY) =>
  openSegments(Buffer.concat(segments), key, SEGMENT_BYTES);

/** As a stream delivers them. */
async function* inChunksOf(length: number, bytes: Buffer): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += length) {
    yield await Promise.resolve(bytes.subarray(at, at + length));
  }
}

async function collected(chunks: AsyncIterable<Buffer>): Promise<Buffer[]> {
  const all: Buffer[] = [];
  for await (const chunk of chunks) all.push(chunk);
  return all;
}

describe('The segments of a streamed body', () => {
  it.each([50, 1_000, SEGMENT_BYTES, SEGMENT_BYTES + 1, 5 * SEGMENT_BYTES])(
    'in chunks of %i bytes are those of the body, and each byte is joined once',
    async (length) => {
      const body = randomBytes(3 * SEGMENT_BYTES + 7);
      const join = jest.spyOn(Buffer, 'concat');
      const segments = await collected(sealedStream(inChunksOf(length, body), KEY));
      const all = join.mock.results.reduce((sum, { value }) => sum + (value as Buffer).length, 0);
      join.mockRestore();
      const whole = Buffer.concat(segments);
      expect(whole.equals(Buffer.concat(sealed(body)))).toBe(true);
      // Once for its segment, and once with its tag.
      expect(all).toBeLessThanOrEqual(2 * whole.length);
      const open = await collected(openStream(inChunksOf(length, whole), KEY, SEGMENT_BYTES));
      expect(Buffer.concat(open).equals(body)).toBe(true);
    },
  );
});

describe('The segments of a body', () => {
  it.each([0, 1, SEGMENT_BYTES - 1, SEGMENT_BYTES, SEGMENT_BYTES + 1, 3 * SEGMENT_BYTES + 7])(
    'of %i bytes are its bytes, each with a tag',
    (length) => {
      const body = randomBytes(length);
      const segments = sealed(body);
      expect(segments).toHaveLength(Math.max(1, Math.ceil(length / SEGMENT_BYTES)));
      const bytes = segments.reduce((sum, segment) => sum + segment.length, 0);
      expect(bytes).toBe(length + segments.length * TAG_BYTES);
      expect(opened(segments).equals(body)).toBe(true);
    },
  );

  const body = randomBytes(3 * SEGMENT_BYTES + 7);
  const [first, second, third, last] = sealed(body) as [Buffer, Buffer, Buffer, Buffer];
  const others = sealed(body, randomBytes(32));

  it.each<[string, readonly Buffer[]]>([
    ['without the last one', [first, second, third]],
    ['without the first one', [second, third, last]],
    ['without one of the middle', [first, third, last]],
    ['in another order', [second, first, third, last]],
    ['with one twice', [first, first, second, third, last]],
    ['with one more at the end', [first, second, third, last, last]],
    ['with one under another key', [first, others[1]!, third, last]],
    ['cut in the last one', [first, second, third, last.subarray(0, 20)]],
    ['cut in its tag', [first, second, third, last.subarray(0, 3)]],
    ['and none', []],
  ])('%s are not opened', async (_, segments) => {
    expect(await reasonOf(() => opened(segments))).toBe('integrity');
  });

  it('are opened by their own key alone', async () => {
    expect(await reasonOf(() => opened([first, second, third, last], randomBytes(32)))).toBe(
      'integrity',
    );
  });

  it('do not open with any bit changed', async () => {
    const whole = Buffer.concat(sealed(randomBytes(40)));
    for (let bit = 0; bit < whole.length * 8; bit += 1) {
      const changed = Buffer.from(whole);
      changed[bit >> 3]! ^= 1 << (bit & 7);
      expect(await reasonOf(() => openSegments(changed, KEY, SEGMENT_BYTES))).toBe('integrity');
    }
  });
});
