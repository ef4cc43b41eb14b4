import { randomBytes } from 'node:crypto';
import { expect, it } from '@jest/globals';
import { nodeClock } from '../../support/internals/core.js';
import {
  DEFAULT_OFFLOAD,
  OutcomeTransform,
  UnreadableOutcome,
} from '../../support/internals/payload.js';
import { afterTest } from '../../support/jest/after-test.js';
import { optionsOf, OWNER } from './pack-options.js';
import { KEYS, orders, outcomeOf } from './support.js';
import { BINDING, storeInFolder } from './vectors/vectors.js';

const FORMS = [
  ['in clear', undefined, false],
  ['compressed', undefined, true],
  ['encrypted', KEYS, false],
  ['compressed and encrypted', KEYS, true],
] as const;

const VERSION_AND_FLAGS_BYTES = 2;

/** An outcome whose body is in a blob. */
async function offloaded(secrets: (typeof FORMS)[number][1], isCompressed: boolean) {
  const outcome = isCompressed ? orders(2) : outcomeOf(randomBytes(64));
  const { store, write, read, remove } = await storeInFolder();
  const transform = new OutcomeTransform(secrets, nodeClock, undefined, undefined, store);
  await transform.open();
  afterTest(async () => {
    await transform.close();
    await remove();
  });
  const compression = isCompressed && { thresholdBytes: 64 };
  const options = { ...optionsOf({ compression }), offload: { ...DEFAULT_OFFLOAD, aboveBytes: 0 } };
  const packed = await transform.pack(outcome, BINDING, options, OWNER);
  /** Whether these bytes are read as another body. */
  const isOther = async (body: Uint8Array) => {
    try {
      const unpacked = await transform.unpack({ ...packed, body }, BINDING);
      return !Buffer.from(unpacked.body).equals(Buffer.from(outcome.body));
    } catch (error) {
      if (error instanceof UnreadableOutcome) return undefined;
      throw error;
    }
  };
  return { packed: Buffer.from(packed.body), write, read, isOther };
}

/** @param from - the first byte that is changed. */
function* flips(bytes: Buffer, from = 0): Generator<Buffer> {
  for (let bit = from * 8; bit < bytes.length * 8; bit += 1) {
    const changed = Buffer.from(bytes);
    changed[bit >> 3]! ^= 1 << (bit & 7);
    yield changed;
  }
}

it.each(FORMS)(
  'A blob %s is not read with any single bit changed',
  async (_, secrets, isCompressed) => {
    const { packed, write, read, isOther } = await offloaded(secrets, isCompressed);
    const blob = await read();
    expect(await isOther(packed)).toBe(false);
    for (const changed of flips(blob)) {
      await write(changed);
      expect(await isOther(packed)).toBeUndefined();
    }
  },
);

it.each(FORMS)(
  'A pointer to a blob %s never leads to other bytes with any single bit changed, nor anywhere if it is encrypted',
  async (_, secrets, isCompressed) => {
    const { packed, isOther } = await offloaded(secrets, isCompressed);
    const found = new Set<boolean | undefined>();
    // In clear, a record that says it has no pointer has its own bytes as its body.
    const from = secrets === undefined ? VERSION_AND_FLAGS_BYTES : 0;
    for (const changed of flips(packed, from)) found.add(await isOther(changed));
    expect(found).not.toContain(true);
    if (secrets !== undefined) expect(found).toEqual(new Set([undefined]));
  },
);
