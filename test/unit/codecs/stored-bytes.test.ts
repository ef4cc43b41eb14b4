import { describe, expect, it } from '@jest/globals';
import { jsonCodec, ValueNotStorableError } from 'nestjs-idempotency';
import { messagePackCodec } from 'nestjs-idempotency/messagepack';

class Money {
  constructor(
    readonly amount: string,
    readonly currency: string,
  ) {}
}

/** Without a text: JSON cannot represent it. */
type Case = readonly [what: string, value: unknown, text: string | undefined, hex: string];

// Stored outcomes outlive the version that wrote them.
const cases: readonly Case[] = [
  [
    'an order',
    { id: 7, paid: true, note: null, lines: [{ sku: 'bü', price: 12.5 }], none: undefined },
    '{"id":7,"paid":true,"note":null,"lines":[{"sku":"bü","price":12.5}]}',
    '85a2696407a470616964c3a46e6f7465c0a56c696e65739182a3736b75a362c3bca57072696365cb4029000000000000a46e6f6e65d40000',
  ],
  [
    'numbers',
    [0, -0, 127, 128, -33, 65_536, 2 ** 53, 0.1, 1e300],
    '[0,0,127,128,-33,65536,9007199254740992,0.1,1e+300]',
    '990092c1a47a65726f7fcc80d0dfce00010000cb4340000000000000cb3fb999999999999acb7e37e43c8800759c',
  ],
  [
    'strings',
    ['', 'a', 'ü€😀', 'x'.repeat(32)],
    '["","a","ü€😀","xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"]',
    '94a0a161a9c3bce282acf09f9880d9207878787878787878787878787878787878787878787878787878787878787878',
  ],
  [
    'text that UTF-8 would change',
    ['\ufeffa', '\ud800', { '\udfff': 1, b: -0 }],
    '["\ufeffa","\\ud800",{"\\udfff":1,"b":0}]',
    '9393c1a474657874c404fffe610093c1a474657874c40200d896c1a66f626a65637493c1a474657874c402ffdf01a16292c1a47a65726f',
  ],
  [
    'a member __proto__',
    JSON.parse('{"__proto__":{"a":1},"b":[]}'),
    '{"__proto__":{"a":1},"b":[]}',
    '96c1a66f626a656374a95f5f70726f746f5f5f81a16101a16290',
  ],
  [
    'Dates',
    [new Date(7), new Date(1_700_000_000_000), new Date(-1)],
    '["1970-01-01T00:00:00.007Z","2023-11-14T22:13:20.000Z","1969-12-31T23:59:59.999Z"]',
    '93d7ff01ab3f0000000000d6ff6553f100c70cff3b8b87c0ffffffffffffffff',
  ],
  [
    'instances',
    { price: new Money('7.10', 'EUR'), url: new URL('http://a/b') },
    '{"price":{"amount":"7.10","currency":"EUR"},"url":"http://a/b"}',
    '82a5707269636582a6616d6f756e74a4372e3130a863757272656e6379a3455552a375726c93c1a375726caa687474703a2f2f612f62',
  ],
  ['what has a toJSON', [{ toJSON: (name: string) => [name] }], '[["0"]]', '9191a130'],
  [
    'what JSON has no number for',
    [NaN, Infinity, undefined],
    undefined,
    '93cb7ff8000000000000cb7ff0000000000000d40000',
  ],
  [
    'BigInts',
    [7n, -(2n ** 63n), 2n ** 70n],
    undefined,
    '93d30000000000000007d38000000000000000d84200000000000000400000000000000000',
  ],
  [
    'Maps and Sets',
    new Map<unknown, unknown>([
      ['a', [-0]],
      [{ b: 1 }, new Set([1, 'c'])],
    ]),
    undefined,
    '96c1a36d6170a1619192c1a47a65726f81a1620194c1a373657401a163',
  ],
  ['bytes', [Buffer.from('paid'), Uint8Array.of(1, 2)], undefined, '92c40470616964c70374010102'],
  [
    'what looks like tags',
    [
      [null, 'set'],
      ['map', 1],
    ],
    '[[null,"set"],["map",1]]',
    '9292c0a373657492a36d617001',
  ],
];

describe('the bytes that are stored stay the same for', () => {
  it.each(cases)('%s', (_, value, text, hex) => {
    expect(Buffer.from(messagePackCodec().encode(value)).toString('hex')).toBe(hex);
    const json = () => Buffer.from(jsonCodec({ dates: 'text' }).encode(value)).toString();
    if (text === undefined) expect(json).toThrow(ValueNotStorableError);
    else expect(json()).toBe(text);
  });
});
