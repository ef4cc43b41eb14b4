import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { newIdempotencyKey } from 'nestjs-idempotency/client';
import { parseItem } from 'structured-headers';
import { idempotencyKeyField } from '../../support/internals/client.js';
import { parseKey } from '../../support/internals/transports-common.js';

const printable = fc.string({
  unit: fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code)),
  minLength: 1,
  maxLength: 255,
});

describe('a new key', () => {
  it('is a random version 4 UUID, a new one each time', () => {
    const keys = Array.from({ length: 1_000 }, newIdempotencyKey);
    for (const key of keys) {
      expect(key).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    }
    expect(new Set(keys).size).toBe(1_000);
  });

  it('is random in every digit that is not fixed', () => {
    const keys = Array.from({ length: 1_000 }, () => newIdempotencyKey().replaceAll('-', ''));
    const digits = Array.from({ length: 32 }, (_, at) => new Set(keys.map((key) => key[at])).size);
    expect(digits).toEqual(digits.map((_, at) => (at === 12 ? 1 : at === 16 ? 4 : 16)));
  });
});

describe('the header field with the key', () => {
  it('is a structured-field String that the server reads as the same key', () => {
    fc.assert(
      fc.property(printable, (key) => {
        const field = idempotencyKeyField(key);
        expect(parseItem(field)[0]).toBe(key);
        expect(parseKey(field, 'strict', 255)).toBe(key);
      }),
      { numRuns: 1_000 },
    );
  });

  it.each(['', 'schlüssel', 'a\tb', 'a\r\nX-Admin: 1', '\u{1F511}', 7, null])(
    'rejects %j',
    (key) => {
      expect(() => idempotencyKeyField(key as string)).toThrow(TypeError);
    },
  );
});
