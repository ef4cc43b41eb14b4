import { describe, expect, it } from '@jest/globals';
import { originOf, parseOrigin } from '../../../support/internals/core.js';

const word = (text: string) => Buffer.from(text).toString('base64url');

describe('The origin of a record', () => {
  it.each([
    { operation: 'pay', scope: ['acme', 7], key: 'k' },
    { operation: 'pay', scope: [7n, -1n, 0n, 10n ** 30n, '7', 7], key: 'k' },
    { operation: 'Ü.€', scope: [], key: 'with "quotes", spaces\nand 😀' },
  ])('is one word with operation, scope and key: case %#', (origin) => {
    const text = originOf(origin);
    expect(text).toMatch(/^[\w-]+$/);
    expect(parseOrigin(text)).toEqual(origin);
  });

  it.each([
    ['no JSON', 'not json'],
    ['no list', '{}'],
    ['null', 'null'],
    ['too short', '["pay",["alice"]]'],
    ['no operation', '[1,["alice"],"k"]'],
    ['no key', '["pay",["alice"],null]'],
    ['no scope', '["pay","alice","k"]'],
    ['no part of a scope', '["pay",[null],"k"]'],
    ['no bigint', '["pay",[{"bigint":"0x7"}],"k"]'],
    ['no canonical bigint', '["pay",[{"bigint":"-0"}],"k"]'],
  ])('is undefined where another program wrote it: %s', (_, text) => {
    expect(parseOrigin(word(text))).toBeUndefined();
  });
});
