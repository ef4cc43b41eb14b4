import { describe, expect, it } from '@jest/globals';
import { fieldLines, fieldValue, keyInLines } from '../../support/internals/transports-common.js';
import { preferredWaitMs } from '../../support/internals/http.js';

const linesOf = (rawHeaders: readonly string[] | undefined, headers?: Record<string, unknown>) =>
  fieldLines(rawHeaders, headers, 'idempotency-key');

describe('the lines of a field', () => {
  const raw = [
    'Host',
    'a',
    'IDEMPOTENCY-KEY',
    'one',
    'X-Idempotency-Key',
    'no',
    'idempotency-key',
    'two',
  ];

  it('are found in any case, each of them, in their order', () => {
    expect(linesOf(raw)).toEqual(['one', 'two']);
  });

  it('are none where the name is only a value or part of a name', () => {
    expect(linesOf(['Accept', 'idempotency-key', 'Idempotency-Key-2', 'x'])).toEqual([]);
    expect(linesOf([])).toEqual([]);
    expect(linesOf(undefined)).toEqual([]);
  });

  it('are kept unchanged', () => {
    expect(fieldLines(['k', '"a", "b"', 'K', ''], undefined, 'k')).toEqual(['"a", "b"', '']);
  });

  it.each([
    ['an adapter with an empty list', [], { 'idempotency-key': 'k' }, ['k']],
    ['a request without the list', undefined, { 'idempotency-key': 'k' }, ['k']],
    ['middleware', ['Host', 'a'], { host: 'a', 'idempotency-key': 'k' }, ['k']],
    ['names in another case', [], { 'Idempotency-KEY': 'k' }, ['k']],
    ['names in two cases', [], { 'Idempotency-Key': 'a', 'idempotency-key': 'b' }, ['a', 'b']],
    ['a list', [], { 'idempotency-key': ['a', 'b'] }, ['a', 'b']],
    ['a number', [], { 'idempotency-key': 7 }, ['7']],
    ['a field that middleware unset', [], { 'idempotency-key': undefined }, []],
  ])('come from the headers of %s', (_, rawHeaders, headers, lines) => {
    expect(linesOf(rawHeaders, headers)).toEqual(lines);
  });

  it('are those received, where middleware changed or deleted the header', () => {
    const received = ['Idempotency-Key', 'sent'];
    expect(linesOf(received, { 'idempotency-key': 'changed' })).toEqual(['sent']);
    expect(linesOf(received, {})).toEqual(['sent']);
  });

  it.each(['a, a', 'a,b', '"a", "b"', '"a","a"'])('joined, as %s, are no key', (joined) => {
    const lines = linesOf([], { 'idempotency-key': joined });
    for (const syntax of ['lenient', 'strict', 'uuid', () => true] as const) {
      expect(keyInLines(lines, syntax, 255)).toBe(false);
    }
  });
});

describe('the value of a field', () => {
  it.each([
    [{ 'content-length': '7' }, '7'],
    [{ 'content-length': 7 }, '7'],
    [{ 'Content-Length': '7' }, '7'],
    [{ 'content-length': ['7', '8'] }, '7,8'],
    [{ 'content-length': undefined }, undefined],
    [{}, undefined],
  ])('of %j is %j', (headers, value) => {
    expect(fieldValue(headers, 'content-length')).toBe(value);
  });
});

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
