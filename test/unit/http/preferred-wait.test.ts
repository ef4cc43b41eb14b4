import { describe, expect, it } from '@jest/globals';
import { preferredWaitMs } from '../../support/internals/http.js';

describe('Prefer: wait (RFC 7240)', () => {
  it.each([
    ['wait=10', 10_000],
    ['Wait = 3', 3_000],
    ['wait="4"', 4_000],
    ['wait=0', 0],
    ['respond-async, wait=100', 100_000],
    ['respond-async;foo="a,wait=7", wait=5; bar', 5_000],
    ['return=minimal; x="\\",wait=9", wait=2', 2_000],
    ['wait=1, wait=50', 1_000],
  ])('%s', (line, expected) => {
    expect(preferredWaitMs([line])).toBe(expected);
  });

  it('may have several lines, of which the first counts', () => {
    expect(preferredWaitMs(['respond-async', 'wait=2', 'wait=8'])).toBe(2_000);
  });

  it.each(['', 'wait', 'wait=', 'wait=soon', 'wait=1.5', 'wait=-1', 'await=5', 'x="wait=5"', ','])(
    'counts as none: %j',
    (line) => {
      expect(preferredWaitMs([line])).toBeUndefined();
    },
  );

  it('counts as none where it is absent', () => {
    expect(preferredWaitMs([])).toBeUndefined();
  });
});
