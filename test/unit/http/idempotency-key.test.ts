import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { parseItem } from 'structured-headers';
import { dose } from '../../support/jest/test-all.js';
import { parseKey, type KeySyntax } from '../../support/internals/transports-common.js';

const MAX_LENGTH = 255;
const FIELDS = dose(100_000);

/** The key as a parser of structured fields sees it: an Item whose value is a String that is not empty. */
function byStructuredHeaders(field: string): string | false {
  try {
    const [value] = parseItem(field);
    return typeof value === 'string' && value !== '' && value.length <= MAX_LENGTH && value;
  } catch {
    return false;
  }
}

/** What `lenient` accepts besides: printable ASCII without a meaning in a structured field or a list. */
function isBare(field: string): boolean {
  return (
    field !== '' &&
    Array.from(field).every((char) => char > ' ' && char <= '~' && !'",;\\'.includes(char))
  );
}

/** One of the characters, or of the longer pieces. */
const oneOf = (chars: string, ...pieces: string[]) =>
  fc.constantFrom(...Array.from(chars), ...pieces);
const joined = (...parts: fc.Arbitrary<string>[]) => fc.tuple(...parts).map((all) => all.join(''));
const repeated = (part: fc.Arbitrary<string>, maxLength: number) =>
  fc.array(part, { maxLength }).map((all) => all.join(''));
const spaces = fc.constantFrom('', '', '', ' ', '  ');
const char = oneOf("abzAZ019 !#-.:;,=*/?@%_~()'", '\\"', '\\\\');
const stray = fc.constantFrom('"', '\\', '\t', '\x7f', '\x80', '\xe9', '\\n', ',', ';', '\0', 'ÿ');

const string = joined(fc.constant('"'), repeated(char, 6), fc.constant('"'));
const digits = fc.string({ unit: oneOf('0159'), minLength: 1, maxLength: 17 });
const number = joined(
  fc.constantFrom('', '-'),
  digits,
  fc.oneof(
    fc.constant(''),
    joined(fc.constant('.'), fc.string({ unit: oneOf('05'), maxLength: 4 })),
  ),
);
const token = joined(fc.constantFrom('a', 'Z', '*'), repeated(oneOf("aZ9:/!#$%&'*+-.^_`|~"), 4));
const base64 = fc
  .uint8Array({ maxLength: 5 })
  .map((octets) => `:${Buffer.from(octets).toString('base64')}:`);
const brokenBase64 = joined(
  fc.constant(':'),
  repeated(oneOf('aZ0+/='), 5),
  fc.constantFrom(':', ''),
);
const display = joined(
  fc.constant('%"'),
  repeated(fc.constantFrom('a', ' ', '%c3%a9', '%41', '%C3', '%ff', '\\'), 3),
  fc.constant('"'),
);
// No dates: structured-headers rejects one with a parameter behind it, which RFC 9651 §3.3.7 allows.
const value = fc.oneof(
  string,
  number,
  token,
  base64,
  brokenBase64,
  display,
  fc.constantFrom('?0', '?1', '?2', '?', '', '()', '"', '-', '%', '@'),
);
const parameterKey = joined(
  fc.constantFrom('a', 'z', '*', 'A', '', '0', '_'),
  repeated(oneOf('a9_-.*B'), 3),
);
const parameter = joined(
  fc.constantFrom(';', ';', ';', ''),
  spaces,
  parameterKey,
  fc.oneof(fc.constant(''), joined(fc.constantFrom('=', '=', '=', ' =', '= '), value)),
);
const wellFormed = joined(string, repeated(parameter, 3));
const soup = repeated(fc.oneof(char, stray, fc.constantFrom('"', '"', ';', '=')), 12);

/** `text` with one piece inserted, removed or doubled. */
const damaged = fc
  .tuple(
    wellFormed,
    fc.nat({ max: 1_000 }),
    fc.constantFrom('', 'cut', 'double'),
    fc.oneof(stray, char),
  )
  .map(([text, position, how, piece]) => {
    const at = position % (text.length + 1);
    const [before, after] = [text.slice(0, at), text.slice(at)];
    if (how === 'cut') return before + after.slice(1);
    return how === 'double' ? before + after.slice(0, 1) + after : before + piece + after;
  });

/** Field values as they reach the parser: without white space around them. */
const field = fc
  .oneof(
    { weight: 4, arbitrary: wellFormed },
    { weight: 3, arbitrary: damaged },
    { weight: 2, arbitrary: soup },
    { weight: 1, arbitrary: value },
  )
  .map((text) => text.replace(/^[ \t]+|[ \t]+$/g, ''))
  // Damage can turn something else into a date.
  .filter((text) => !/=@-?\d/.test(text));

describe('the key, as two parsers see it', () => {
  // Counted to know that the comparison is one: both outcomes have to be frequent.
  const seen = { accepted: 0, rejected: 0 };

  it(`is the same in ${FIELDS.toLocaleString('en')} fields, with strict`, () => {
    fc.assert(
      fc.property(field, (text) => {
        const expected = byStructuredHeaders(text);
        if (parseKey(text, 'strict', MAX_LENGTH) !== expected) {
          throw new Error(`${JSON.stringify(text)} should be ${JSON.stringify(expected)}`);
        }
        seen[expected === false ? 'rejected' : 'accepted'] += 1;
      }),
      { numRuns: FIELDS },
    );
    expect(seen.accepted).toBeGreaterThan(FIELDS / 10);
    expect(seen.rejected).toBeGreaterThan(FIELDS / 10);
  });

  it('is the same with lenient, save for bare keys', () => {
    fc.assert(
      fc.property(field, (text) => {
        const expected = isBare(text) ? text : byStructuredHeaders(text);
        if (parseKey(text, 'lenient', MAX_LENGTH) !== expected) {
          throw new Error(`${JSON.stringify(text)} should be ${JSON.stringify(expected)}`);
        }
      }),
      { numRuns: FIELDS / 2 },
    );
  });
});

// Other parameters: above, where none is a date and few are at the limit.
describe('a field with a date or a limit among its parameters', () => {
  it.each([
    ['a=@1659578233', 'k'],
    ['a=@-1', 'k'],
    ['a=@1;b=2', 'k'],
    ['a=@1.5', false],
    ['a=@1234567890123456', false],
    ['a=123456789012345', 'k'],
    ['a=1234567890123456', false],
    ['a=%"%c3%a9"', 'k'],
    ['a=%"%C3%A9"', false],
  ])('"k";%s means the key %j', (parameters, key) => {
    for (const syntax of ['strict', 'lenient'] as const) {
      expect(parseKey(`"k";${parameters}`, syntax, MAX_LENGTH)).toBe(key);
      expect(parseKey(`"k"; ${parameters};z`, syntax, MAX_LENGTH)).toBe(key);
    }
  });
});

describe('the length of a key', () => {
  it('is counted after decoding, and never cut', () => {
    const escaped = '\\"'.repeat(10);
    for (const syntax of ['strict', 'lenient'] as const) {
      expect(parseKey(`"${escaped}"`, syntax, 10)).toBe('"'.repeat(10));
      expect(parseKey(`"${escaped}"`, syntax, 9)).toBe(false);
    }
    expect(parseKey('x'.repeat(10), 'lenient', 10)).toBe('x'.repeat(10));
    expect(parseKey('x'.repeat(11), 'lenient', 10)).toBe(false);
  });

  it('does not include its parameters', () => {
    expect(parseKey(`"k";a="${'x'.repeat(1_000)}"`, 'strict', 1)).toBe('k');
  });
});

describe('a field of 16 KiB', () => {
  const long: [string, string][] = [
    ['backslashes', `"${'\\'.repeat(16_384)}`],
    ['escapes without an end', `"${'\\"'.repeat(8_192)}`],
    ['parameters', `"k"${';a=1'.repeat(4_096)}!`],
    ['spaces in front of a parameter', `"k";${' '.repeat(16_384)}`],
    ['digits', `"k";a=${'1'.repeat(16_384)}`],
    ['base64', `"k";a=:${'a'.repeat(16_384)}`],
    ['bare characters', `${'a'.repeat(16_384)} `],
  ];
  // test/unit/core/util counts that the steps grow linearly with the length.
  it.each(long)('of %s is rejected', (_, text) => {
    expect(parseKey(text, 'lenient', MAX_LENGTH)).toBe(false);
  });
});

describe('key.syntax', () => {
  const uuid = '0b5f9b6e-3c1d-4f51-9f0a-1f2d3c4b5a69';

  it.each<[string, string | false]>([
    [uuid, uuid],
    [`"${uuid}"`, uuid],
    [uuid.toUpperCase(), uuid.toUpperCase()],
    [`{${uuid}}`, false],
    [uuid.slice(1), false],
    [`${uuid}0`, false],
    [uuid.replaceAll('-', ''), false],
    ['', false],
  ])("'uuid' maps %s to %s", (text, key) => {
    expect(parseKey(text, 'uuid', MAX_LENGTH)).toBe(key);
  });

  it('as a predicate receives the decoded key, and only a decoded one', () => {
    const asked: string[] = [];
    const syntax: KeySyntax = (key) => {
      asked.push(key);
      return key.startsWith('order-');
    };
    expect(parseKey('"order-1"', syntax, MAX_LENGTH)).toBe('order-1');
    expect(parseKey('payment-1', syntax, MAX_LENGTH)).toBe(false);
    for (const rejected of ['', '""', '"a', 'a b', 'x'.repeat(256)]) {
      expect(parseKey(rejected, syntax, MAX_LENGTH)).toBe(false);
    }
    expect(asked).toEqual(['order-1', 'payment-1']);
  });
});
