import { isDeepStrictEqual } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { canonicalJson, fingerprint } from '../../../support/internals/core.js';
import { dose } from '../../../support/jest/test-all.js';

const text = fc.string({
  unit: fc.constantFrom('a', 's', 'b', '1', ':', '"', 'ü', '\ud800', '\udc00', '�'),
  maxLength: 5,
});
const bytes = fc.uint8Array({ maxLength: 4, max: 0x7f });
const parts = fc.array(fc.oneof(text, bytes), { minLength: 1, maxLength: 4 });

/** One string for the parts, types and boundaries included. */
function spelled(list: readonly (string | Uint8Array)[]): string {
  return JSON.stringify(list.map((part) => (typeof part === 'string' ? part : [...part])));
}

describe('a fingerprint', () => {
  it('is equal for equal parts, and for no others', () => {
    fc.assert(
      fc.property(parts, parts, (one, other) => {
        const same = spelled(one) === spelled(other);
        expect(fingerprint(one) === fingerprint(other)).toBe(same);
      }),
      { numRuns: dose(5_000) },
    );
  });

  it('of JSON values is equal for equal values, and for no others', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 3 }), fc.jsonValue({ maxDepth: 3 }), (one, other) => {
        const [left, right] = [one, other].map(
          (value) => JSON.parse(JSON.stringify(value)) as unknown,
        );
        const same = isDeepStrictEqual(left, right);
        expect(of(left) === of(right)).toBe(same);
        expect(of(left)).toBe(of(JSON.parse(JSON.stringify(left))));
      }),
      { numRuns: 1_000 },
    );
  });

  it('changes when text moves from one part into the next', () => {
    expect(fingerprint(['ab', 'c'])).not.toBe(fingerprint(['a', 'bc']));
    expect(fingerprint(['a', 'b'])).not.toBe(fingerprint(['as1:b']));
    expect(fingerprint(['', 'a'])).not.toBe(fingerprint(['a', '']));
  });

  it('distinguishes a string from its bytes', () => {
    expect(fingerprint(['a'])).not.toBe(fingerprint([Buffer.from('a')]));
    expect(fingerprint(['x', 'a'])).not.toBe(fingerprint([Buffer.from('x'), 'a']));
  });

  it('distinguishes two lone surrogates', () => {
    expect(fingerprint(['\ud800'])).not.toBe(fingerprint(['\udfff']));
    expect(fingerprint(['\ud800', Buffer.from('')])).not.toBe(
      fingerprint(['\udfff', Buffer.from('')]),
    );
  });

  it('counts the written length: an escaped lone surrogate does not swallow the next part', () => {
    // Escaped, the first string is longer than its length prefix says.
    const swallowing = `\ud800${'x'.repeat(3)}s4:abc`;
    const escaped = JSON.stringify(swallowing);
    const kept = escaped.slice(0, swallowing.length);
    const rest = escaped.slice(swallowing.length + 's4:'.length);
    expect(fingerprint([swallowing])).not.toBe(fingerprint([kept, rest]));
  });

  it('is 128 bits in base64url', () => {
    expect(fingerprint(['a'])).toMatch(/^[A-Za-z0-9_-]{22}$/);
    expect(fingerprint(['a', Buffer.from('b')])).toMatch(/^[A-Za-z0-9_-]{22}$/);
  });
});

function of(value: unknown): string {
  return fingerprint(['operation', canonicalJson(value)]);
}
