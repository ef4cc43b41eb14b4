import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { staticKeys } from 'nestjs-idempotency';
import { nodeClock } from '../../../support/internals/core.js';
import {
  decodeFrame,
  decodePointer,
  FRAME_HEADER,
  isAvailable,
  OutcomeTransform,
} from '../../../support/internals/payload.js';
import { opened } from '../support.js';
import { madeVectors, storeInFolder, type Vectors } from './vectors.js';

// Written once, and read by every version of Node on which the tests of units run.
const { key, dictionary, outcomes, blobs, pointers } = JSON.parse(
  readFileSync(join(import.meta.dirname, 'vectors.json'), 'utf8'),
) as Vectors;

const bytes = (hex: string) => Buffer.from(hex, 'hex');
const hex = (given: Uint8Array) => Buffer.from(given).toString('hex');

const secrets = staticKeys({
  current: 'other',
  keys: { '2026-11': bytes(key), other: Buffer.alloc(32) },
});
const dictionaries = { byId: { 7: bytes(dictionary) } };

describe('a frame that was written by another version', () => {
  const isReadable = ({ algorithm }: Vectors['outcomes'][number]) =>
    algorithm === undefined || isAvailable(algorithm);
  const readable = outcomes.filter(isReadable);

  it.each(readable)('is read: $name', async ({ binding, header, body, frame }) => {
    const { unpack } = await opened(secrets, { dictionaries });
    const read = await unpack({ header: FRAME_HEADER, body: bytes(frame) }, binding);
    expect({ header: read.header, body: hex(read.body) }).toEqual({ header, body });
  });

  it.each(blobs)('is read with its blob: $name', async ({ binding, header, body, frame, blob }) => {
    const inFolder = await storeInFolder();
    const transform = new OutcomeTransform(
      secrets,
      nodeClock,
      undefined,
      undefined,
      inFolder.store,
    );
    await transform.open();
    try {
      await inFolder.write(bytes(blob));
      expect(decodeFrame(bytes(frame)).head.isPointer).toBe(true);
      const read = await transform.unpack({ header: FRAME_HEADER, body: bytes(frame) }, binding);
      expect({ header: read.header, body: hex(read.body) }).toEqual({ header, body });
    } finally {
      await transform.close();
      await inFolder.remove();
    }
  });

  if (readable.length < outcomes.length) {
    const others = outcomes.filter((outcome) => !isReadable(outcome));
    it.skip.each(others)(
      'is not read, as this version of Node has no zstd: $name',
      () => undefined,
    );
  }

  it('is written as then, but for what the algorithms have learned since', async () => {
    const now = await madeVectors();
    const uncompressed = ({ algorithm }: Vectors['outcomes'][number]) => algorithm === undefined;
    expect(now.outcomes.filter(uncompressed)).toEqual(outcomes.filter(uncompressed));
    expect(now.blobs.filter(uncompressed)).toEqual(blobs.filter(uncompressed));
    expect(now.pointers).toEqual(pointers);
  });

  it.each(pointers)('has a pointer: case %#', ({ pointer, ...expected }) => {
    const { sha256, key: blobKey, ...read } = decodePointer(bytes(pointer));
    expect({ ...read, sha256: hex(sha256), ...(blobKey && { key: hex(blobKey) }) }).toEqual(
      expected,
    );
  });
});
