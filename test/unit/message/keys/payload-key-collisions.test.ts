import { expect, it } from '@jest/globals';
import { payloadKey, type PayloadSelection } from '../../../support/internals/message.js';
import { dose } from '../../../support/jest/test-all.js';
import { withPayload } from './received.js';

/** The number of payloads; PAYLOAD_KEYS sets another. */
const PAYLOADS = Number(process.env.PAYLOAD_KEYS ?? dose(100_000));

const ABSENT = Symbol('absent');

/** Values that are easily confused. The first {@link SILENT} cannot identify a message. */
const VALUES: readonly unknown[] = [
  ...[ABSENT, null, '', [], {}, [null]],
  ...['null', 0, '0', false, 'false', 1, '1', true, 'true', '[]', '{}', '[null]', '"', '\\"', 'a'],
  ...[
    [0],
    ['0'],
    [1],
    ['1'],
    [1, 1],
    ['1,1'],
    [[1, 1]],
    [[1], 1],
    { a: 1 },
    { a: '1' },
    [{ a: 1 }],
  ],
];

/** Lists of items of which one member counts: no two have the same values of it in the same places. */
const LISTS: readonly unknown[] = [
  ...[ABSENT, [], [{}], [null], [[]], [{}, {}]],
  ...[{ sku: 0 }, { sku: '0' }, { sku: 1 }, { sku: false }, { sku: true }, [{ sku: 0 }]],
  ...[[{ sku: 1 }], [{ sku: '1' }], [{ sku: [1] }], [{ sku: { a: 1 } }], [{ sku: [{ sku: 1 }] }]],
  ...[[{ sku: 'null' }], [{ sku: '1,2' }], [{ sku: false }], [{ sku: true }], [[{ sku: 1 }]]],
  ...[
    [{ sku: 1 }, {}],
    [{}, { sku: 1 }],
    [{ sku: 1 }, 0],
    [0, { sku: 1 }],
    [{ sku: 1 }, { sku: null }],
  ],
  ...[
    [{ sku: 1 }, { sku: 1 }],
    [{ sku: 1 }, { sku: 2 }],
    [{ sku: 2 }, { sku: 1 }],
  ],
  ...[[[{ sku: 1 }], { sku: 2 }], [[{ sku: 1 }, { sku: 2 }]]],
];
const SILENT = 6;

/** Payloads of four members, each of which has 32 values. */
const RADIX = 32;
const COMBINATIONS = RADIX ** 4;

/** The value of each member in the payload of this number: no two payloads have the same four. */
function digitsOf(number: number): number[] {
  return [0, 1, 2, 3].map((place) => Math.floor(number / RADIX ** place) % RADIX);
}

/** @param volatile - what does not count, and may differ between deliveries. */
function payloadOf(number: number, volatile: number): unknown {
  const [id, amount, note, list] = digitsOf(number) as [number, number, number, number];
  const order = present({ id: VALUES[id], amount: VALUES[amount], version: volatile });
  const items = withPrices(LISTS[list], volatile);
  return volatile % 2 === 0
    ? present({ sentAt: volatile, order, note: VALUES[note], items })
    : present({ items, note: VALUES[note], order, trace: { id: `t-${volatile}` } });
}

function present(members: object): object {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== ABSENT));
}

function withPrices(value: unknown, price: number): unknown {
  if (Array.isArray(value)) return value.map((item) => withPrices(item, price));
  return typeof value === 'object' && value !== null ? { price, ...value } : value;
}

const selections: [number, string, PayloadSelection][] = [
  [PAYLOADS, 'is included', { include: ['order.id', 'order.amount', 'note', 'items.sku'] }],
  // Through the same digest: fewer of them show that the selection loses nothing.
  [
    Math.ceil(PAYLOADS / 10),
    'is not excluded',
    { exclude: ['sentAt', 'trace', 'order.version', 'items.price'] },
  ],
];

it.each(selections)(
  'no two of %i payloads have the same key that differ in what %s',
  (count, _, selection) => {
    expect([VALUES.length, LISTS.length]).toEqual([RADIX, RADIX]);
    expect(count).toBeLessThanOrEqual(COMBINATIONS);
    const key = payloadKey(selection);
    const keys = new Set<string>();
    let silent = 0;
    for (let index = 0; index < count; index += 1) {
      // An odd factor leaves none out and takes none twice, nor does the shift, without which some of them would have
      // no two that differ in the last member alone.
      const spread = (index * 7_919) % COMBINATIONS;
      const number = spread ^ (spread >>> 10);
      const found = key(withPayload(payloadOf(number, index)));
      if (digitsOf(number).every((digit) => digit < SILENT)) {
        silent += 1;
        if (found !== undefined) throw new Error(`A key of nothing: ${number}`);
      } else {
        keys.add(found!);
      }
      // Otherwise the keys could differ by what does not count.
      if (index % 100 === 0) expect(key(withPayload(payloadOf(number, index + 1)))).toBe(found);
    }
    expect(keys.size).toBe(count - silent);
  },
  120_000,
);
