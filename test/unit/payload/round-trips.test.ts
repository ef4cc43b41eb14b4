import { expect, it } from '@jest/globals';
import fc from 'fast-check';
import { dose } from '../../support/jest/test-all.js';
import { ALGORITHMS, FRAME_HEADER, isAvailable } from '../../support/internals/payload.js';
import { equal, KEYS, opened, orders } from './support.js';

const bodies = fc.oneof(
  fc.uint8Array({ maxLength: 300 }),
  fc.string({ unit: 'grapheme', maxLength: 300 }).map((text) => Buffer.from(text)),
  fc
    .tuple(fc.uint8Array({ maxLength: 40 }), fc.nat(60))
    .map(([part, times]) => Buffer.concat(Array.from({ length: times }, () => part))),
);
const outcomes = fc.record({
  header: fc.oneof(
    fc.constantFrom(FRAME_HEADER, '', '{"status":201}', '\ufffd'),
    fc.string({ unit: 'grapheme' }),
  ),
  body: bodies,
});

it('any outcome is the same with every way to store it', async () => {
  const transforms = await Promise.all(
    [undefined, KEYS].flatMap((keys) => [
      opened(keys),
      ...ALGORITHMS.filter(isAvailable).map((algorithm) =>
        opened(keys, {
          compression: { algorithm, thresholdBytes: 64 },
          dictionaries: { write: 1, byId: { 1: orders(2).body } },
        }),
      ),
    ]),
  );
  const which = fc.nat(transforms.length - 1);
  await fc.assert(
    fc.asyncProperty(outcomes, which, async (outcome, at) => {
      const { pack, unpack } = transforms[at]!;
      const packed = await pack(outcome);
      expect(equal(await unpack(packed), outcome)).toBe(true);
    }),
    { numRuns: dose(10_000) },
  );
});
