import { Buffer } from 'node:buffer';
import { isDeepStrictEqual } from 'node:util';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { Observable } from 'rxjs';
import { dose } from '../../../support/jest/test-all.js';
import {
  ContentNotComparableError,
  IdempotencyOptionsError,
} from '../../../support/internals/core.js';
import {
  payloadKey,
  type PayloadSelection,
  patternOf,
} from '../../../support/internals/message.js';
import { ofMembers, reordered } from '../../../support/jest/json-members.js';
import { countedFacts, saysSomething } from './counted-facts.js';
import {
  contextOf,
  fromEverywhere,
  fromNats,
  fromRabbitMq,
  ORDER,
  withPayload,
} from './received.js';

function keyOf(payload: unknown, selection?: PayloadSelection): string | undefined {
  return payloadKey(selection)(withPayload(payload));
}

/** How many keys these payloads have; each must have one. */
function countKeys(payloads: readonly unknown[], selection?: PayloadSelection): number {
  const keys = payloads.map((payload) => keyOf(payload, selection));
  for (const key of keys) expect(key).toMatch(/^[\w-]{43}$/);
  return new Set(keys).size;
}

class Money {
  constructor(readonly amount: number) {}
}

/** Few names and few leaves, so that payloads collide often. */
const name = fc.constantFrom('a', 'b', 'c', 'toJSON', '__proto__');
const { value: json, object } = fc.letrec<{ value: unknown; object: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4, depthIdentifier: 'payload' },
    fc.constantFrom<unknown>(
      null,
      true,
      false,
      0,
      1,
      '',
      '1',
      'null',
      '[Object]',
      '\ud800',
      '\udfff',
    ),
    fc.array(tie('value'), { maxLength: 3 }),
    tie('object'),
  ),
  object: fc
    .uniqueArray(fc.tuple(name, tie('value')), { maxLength: 4, selector: ([member]) => member })
    .map((members) => ofMembers(members)),
}));
const anyPayload = fc.oneof(json, object, object, object);
const names = fc.array(name, { minLength: 1, maxLength: 3 });
const path = names.map((each) => each.join('.'));
const selection = fc.record(
  {
    include: fc.array(path, { minLength: 1, maxLength: 3 }),
    exclude: fc.array(path, { maxLength: 3 }),
  },
  { requiredKeys: [] },
);

/** Two payloads that differ in at most one member, which often is a chosen one. */
const pairs = selection.chain((chosen) => {
  const paths = [...(chosen.include ?? []), ...(chosen.exclude ?? [])];
  const at = fc.oneof(names, ...paths.map((each) => fc.constant(each.split('.'))));
  return fc
    .record({ at, value: json, object, anywhere: fc.option(anyPayload), isList: fc.boolean() })
    .map(({ at: [...above], value, object: holder, anywhere, isList }) => {
      const member = above.pop()!;
      const payload = anywhere ?? within(above, isList ? [holder] : holder);
      const edited = withMembers(
        payload,
        (found) => isDeepStrictEqual(found, above) && { [member]: value },
      );
      return { chosen, payload, edited };
    });
});

describe('a key derived from the payload', () => {
  it('is equal for payloads whose counted members are equal, and for no others', () => {
    const seen = { equal: 0, different: 0, without: 0 };
    fc.assert(
      fc.property(pairs, ({ chosen, payload, edited }) => {
        const [facts, otherFacts] = [payload, edited].map((one) => countedFacts(one, chosen));
        const [key, otherKey] = [payload, edited].map((one) => keyOf(one, chosen));
        expect(key === undefined).toBe(!facts!.some(saysSomething));
        if (key === undefined) {
          seen.without += 1;
          return;
        }
        const isEqual = isDeepStrictEqual(facts, otherFacts);
        expect(key === otherKey).toBe(isEqual);
        seen[isEqual ? 'equal' : 'different'] += 1;
      }),
      { numRuns: dose(6_000) },
    );
    for (const count of Object.values(seen)) expect(count).toBeGreaterThan(dose(100));
  });

  it('does not depend on the order of members', () => {
    fc.assert(
      fc.property(anyPayload, selection, (payload, chosen) => {
        expect(keyOf(reordered(payload), chosen)).toBe(keyOf(payload, chosen));
      }),
      { numRuns: dose(2_000) },
    );
  });

  it('counts a member that is undefined as absent, as JSON does', () => {
    expect(keyOf({ id: 1, a: undefined })).toBe(keyOf({ id: 1 }));
    expect(keyOf({ id: 1, a: undefined }, { include: ['id', 'a'] })).toBe(keyOf({ id: 1 }));
  });

  it('identifies a member by its path; a dot in a name is not a separator', () => {
    expect(keyOf({ a: 1 }, { include: ['a'] })).toMatch(/^[\w-]{43}$/);
    expect(keyOf({ a: 1 }, { include: ['a.b'] })).toBeUndefined();
    expect(keyOf({ 'a.b': 1 }, { include: ['a.b'] })).toBeUndefined();
    const nested = keyOf({ a: { b: 1 } }, { include: ['a.b'] });
    expect(nested).toBe(keyOf({ a: { b: 1, c: 2 } }, { include: ['a.b'] }));
    expect(nested).not.toBe(keyOf({ b: { a: 1 } }, { include: ['a.b', 'b.a'] }));
  });

  it('counts the places of what is included in lists, also beside items that have nothing of it', () => {
    const lists: unknown[] = [
      ...[{ sku: 0 }, { sku: '0' }, { sku: 1 }, { sku: false }, { sku: true }, [{ sku: 0 }]],
      ...[[{ sku: 1 }], [{ sku: '1' }], [{ sku: [1] }], [{ sku: { a: 1 } }]],
      ...[[{ sku: [{ sku: 1 }] }], [{ sku: 'null' }], [{ sku: '1,2' }], [[{ sku: 1 }]]],
      ...[[{ sku: false }], [{ sku: true }], [{ sku: 1 }, {}], [{}, { sku: 1 }]],
      ...[
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
    const payloads = lists.map((items) => ({ items }));
    expect(countKeys(payloads, { include: ['items.sku'] })).toBe(lists.length);
    expect(countKeys(payloads, { exclude: ['items.price'] })).toBe(lists.length);
  });

  const nothing: [string, unknown, PayloadSelection][] = [
    ['nothing came', undefined, {}],
    ['an empty string came', '', {}],
    ['no bytes came', new Uint8Array(), {}],
    ['a string has no members', 'a', { include: ['a'] }],
    ['a number has no members', 7, { include: ['a'] }],
    ['bytes have no members', Buffer.from('{"a":1}'), { include: ['a'] }],
  ];
  it.each(nothing)('is absent where %s', (_, payload, chosen) => {
    expect(keyOf(payload, chosen)).toBeUndefined();
  });

  it('counts a payload without members as a whole', () => {
    const wholes = [
      'a',
      'b',
      '{"a":1}',
      { a: 1 },
      1,
      '1',
      true,
      Buffer.from('a'),
      Buffer.from('{"a":1}'),
    ];
    expect(countKeys(wholes)).toBe(wholes.length);
    expect(countKeys(wholes, { exclude: ['b'] })).toBe(wholes.length);
    expect(keyOf(Buffer.from('abc').subarray(1, 2))).toBe(keyOf(new Uint8Array([0x62])));
  });

  const lossy: [string, unknown][] = [
    ['a date', new Date(0)],
    ['bytes', Buffer.from('a')],
    ['a Map', new Map([['b', 1]])],
    ['an instance of a class', new Money(1)],
    ['a boxed string', Object('a')],
    ['NaN', NaN],
    ['a BigInt', 1n],
    ['a function', () => 1],
    ['a symbol', Symbol('a')],
    ['an object with a JSON form of its own', { toJSON: () => 1 }],
    ['undefined in an array', [undefined, 1]],
    ['a hole in an array', [1, , 2]],
  ];
  describe.each(lossy)('with %s in the payload', (_, value) => {
    it('is rejected, for another value would have the same text', () => {
      for (const payload of [
        { id: 1, a: value },
        { id: 1, a: [{ b: value }] },
      ]) {
        expect(() => keyOf(payload)).toThrow(ContentNotComparableError);
        expect(() => keyOf(payload, { include: ['a'] })).toThrow(ContentNotComparableError);
        expect(() => keyOf(payload, { exclude: ['id'] })).toThrow(ContentNotComparableError);
      }
    });

    it('exists when that is excluded, or not included', () => {
      const key = keyOf({ id: 1 });
      expect(keyOf({ id: 1, a: value }, { exclude: ['a'] })).toBe(key);
      expect(keyOf({ id: 1, a: value }, { include: ['id'] })).toBe(key);
    });
  });

  it.each([new Map([['b', 1]]), new Date(0), Buffer.from('b')])(
    'is rejected where a path leads into %p',
    (value) => {
      for (const chosen of [{ include: ['id', 'a.b'] }, { exclude: ['a.b'] }]) {
        expect(() => keyOf({ id: 1, a: value }, chosen)).toThrow(ContentNotComparableError);
      }
    },
  );

  it('is rejected for a stream, of which nothing has arrived yet', () => {
    const stream = new Observable();
    for (const chosen of [{}, { include: ['closed'] }, { exclude: ['a'] }]) {
      expect(() => keyOf(stream, chosen)).toThrow(ContentNotComparableError);
    }
  });

  it('is rejected for a circle and for excessive depth, also where that does not count', () => {
    const circle: Record<string, unknown> = { id: 1 };
    circle.self = circle;
    expect(() => keyOf(circle)).toThrow(ContentNotComparableError);
    const deep: unknown = JSON.parse(`{"id":1,"a":${'['.repeat(1_001)}1${']'.repeat(1_001)}}`);
    for (const chosen of [{}, { include: ['id'] }, { exclude: ['a'] }]) {
      expect(() => keyOf(deep, chosen)).toThrow(ContentNotComparableError);
    }
  });

  it('exists for a payload nested 1,000 levels deep', () => {
    const deep: unknown = JSON.parse(`${'['.repeat(1_000)}1${']'.repeat(1_000)}`);
    expect(keyOf(deep, { exclude: ['a'] })).toMatch(/^[\w-]{43}$/);
  });

  it('is the same for objects without a prototype, and for those of another realm', () => {
    const bare: unknown = Object.assign(Object.create(null), { order: { id: 1 } });
    const foreign: unknown = runInNewContext('({ order: { id: 1 } })');
    expect(keyOf(bare)).toBe(keyOf({ order: { id: 1 } }));
    expect(keyOf(foreign)).toBe(keyOf({ order: { id: 1 } }));
  });

  it('is the same on every transport, and different for every pattern', async () => {
    const key = payloadKey({ include: ['order'] });
    const keys = [
      key(contextOf('ws', [{}, ORDER])),
      key(contextOf('graphql', [{}, ORDER, {}, {}])),
      key(contextOf('http', [{ body: ORDER }, {}])),
    ];
    expect(new Set(keys)).toEqual(new Set([keyOf(ORDER, { include: ['order'] })]));
    const contexts = await fromEverywhere();
    const patterns = new Set(contexts.map((context) => patternOf(context)));
    expect(patterns.size).toBeGreaterThan(2);
    expect(new Set(contexts.map((context) => key(context))).size).toBe(patterns.size);
  });

  it('is different for every pattern of a payload that is only bytes, too', async () => {
    const contexts = await Promise.all([fromRabbitMq(), fromNats(), fromRabbitMq()]);
    const keys = contexts.map((context) => {
      const bytes = Buffer.from('order 7');
      return payloadKey()(contextOf('rpc', [bytes, context.switchToRpc().getContext<object>()]));
    });
    expect(patternOf(contexts[1])).not.toBe(patternOf(contexts[0]));
    expect(keys[1]).not.toBe(keys[0]);
    expect(keys[2]).toBe(keys[0]);
  });

  it('does not disclose the payload, also where it is rejected', () => {
    expect(keyOf({ card: '4242' })).not.toContain('4242');
    const rejected = () => keyOf({ card: '4242-4242', at: new Date(0) });
    expect(rejected).toThrow(/payloadKey\(\)/);
    expect(rejected).not.toThrow(/4242|card/);
  });

  it('does not change the payload, and uses the paths as they were', () => {
    const include = ['order'];
    const key = payloadKey({ include });
    include[0] = 'sentAt';
    const text = JSON.stringify(ORDER);
    expect(key(withPayload(ORDER))).toBe(keyOf(ORDER, { include: ['order'] }));
    expect(JSON.stringify(ORDER)).toBe(text);
  });
});

const misconfigured: [string, unknown][] = [
  ['a path that is empty', { include: [''] }],
  ['a path with an empty name', { exclude: ['order..id'] }],
  ['a path that ends in a dot', { include: ['order.'] }],
  ['a path that is not a string', { include: ['a', 7] }],
  ['a path instead of an array', { include: 'order' }],
  ['null instead of an array', { exclude: null }],
  ['no path to include', { include: [] }],
  ['an unknown option', { includes: ['order'] }],
  ['a path in place of the options', 'order'],
  ['null in place of the options', null],
];
it.each(misconfigured)('rejects %s at once', (_, chosen) => {
  expect(() => payloadKey(chosen as PayloadSelection)).toThrow(IdempotencyOptionsError);
  expect(() => payloadKey(chosen as PayloadSelection)).toThrow(/payloadKey/);
});

function within(names: readonly string[], value: unknown): unknown {
  return names.reduceRight((inner, member) => ofMembers([[member, inner]]), value);
}

/** The payload with more members wherever `added` has some for the names on the path. */
function withMembers(
  value: unknown,
  added: (names: readonly string[]) => object | false,
  names: readonly string[] = [],
): unknown {
  if (Array.isArray(value)) return value.map((item) => withMembers(item, added, names));
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).map(
    ([member, below]) => [member, withMembers(below, added, [...names, member])] as const,
  );
  return ofMembers([...members, ...Object.entries(added(names) || {})]);
}
