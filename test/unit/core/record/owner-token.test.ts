import { describe, expect, it } from '@jest/globals';
import { newOwnerToken, OwnerTokens, nodeClock } from '../../../support/internals/core.js';

const TOKENS = 100_000;

const ofEngine = new OwnerTokens(nodeClock);

describe.each([
  ['of an engine', () => ofEngine.next()],
  ['of its own', () => newOwnerToken(nodeClock)],
])('an owner token %s', (_, next) => {
  const tokens = Array.from({ length: TOKENS }, next);

  it('is 128 bits in base64url', () => {
    expect(tokens.filter((token) => !/^[A-Za-z0-9_-]{22}$/.test(token))).toEqual([]);
    expect(Buffer.from(tokens[0]!, 'base64url')).toHaveLength(16);
  });

  it('is unique to one attempt', () => {
    expect(new Set(tokens).size).toBe(TOKENS);
  });

  it('has every bit random', () => {
    const ones = new Array<number>(128).fill(0);
    for (const token of tokens) {
      Buffer.from(token, 'base64url').forEach((byte, index) => {
        for (let bit = 0; bit < 8; bit += 1) ones[index * 8 + bit]! += (byte >> bit) & 1;
      });
    }
    // Ten standard deviations: a fair bit is outside of it once in 10^23 runs.
    const deviation = 10 * Math.sqrt(TOKENS / 4);
    for (const count of ones) expect(Math.abs(count - TOKENS / 2)).toBeLessThan(deviation);
  });
});
