import fc from 'fast-check';

/** What a value given as a caller or as a key means. */
export type Meaning =
  | { readonly kind: 'none' }
  | { readonly kind: 'parts'; readonly parts: readonly (string | number | bigint)[] }
  /** The application's mistake, as messages name it. */
  | { readonly kind: 'invalid'; readonly type: string };

export interface GivenValue {
  readonly value: unknown;
  readonly meaning: Meaning;
}

/** Part of each text that a value would be converted to. No message may have it. */
export const SECRET = 'a1b2c3d4';

/** As MongoDB's. */
class ObjectId {
  constructor(private readonly hex: string) {}
  toHexString(): string {
    return this.hex;
  }
  toString(): string {
    return this.hex;
  }
  toJSON(): string {
    return this.hex;
  }
}

class Account {
  constructor(private readonly name: string) {}
  get [Symbol.toStringTag](): string {
    return this.name;
  }
  [Symbol.toPrimitive](): string {
    return this.name;
  }
}

const invalid = (value: unknown, type: string): GivenValue => ({
  value,
  meaning: { kind: 'invalid', type },
});

const part = (value: string | number | bigint): GivenValue => ({
  value,
  meaning: { kind: 'parts', parts: [value] },
});

const none = fc
  .constantFrom(undefined, null)
  .map((value): GivenValue => ({ value, meaning: { kind: 'none' } }));

/** Few numbers, so that the same ones occur as texts, numbers and bigints. */
const number = fc.oneof(fc.integer({ min: -3, max: 9 }), fc.maxSafeInteger());
const text = fc.string({
  unit: fc.constantFrom('a', '1', ':', ';', 's', 'n', 'b', '-', '"', '\ud800', 'ü'),
  minLength: 1,
  maxLength: 4,
});

const parts = fc.oneof(
  text.map(part),
  number.map(part),
  number.map((one) => part(String(one))),
  number.map((one) => part(BigInt(one))),
  fc.bigInt().map(part),
);

const secret = fc.nat({ max: 9 }).map((one) => `${SECRET}-${String(one)}`);

/** Values of a type that no part can have. */
const notParts = fc.oneof(
  fc.constant(invalid('', 'an empty string')),
  fc
    .constantFrom(NaN, 0.5, -1.5, Infinity, -Infinity)
    .map((one) => invalid(one, 'a number that is no integer')),
  fc
    .constantFrom(2 ** 53, 2 ** 53 + 2, -(2 ** 53), 1e300)
    .map((one) => invalid(one, 'an integer beyond 2^53')),
  fc.boolean().map((one) => invalid(one, 'a boolean')),
  secret.chain((one) =>
    fc.constantFrom(
      invalid(Symbol(one), 'a symbol'),
      invalid(() => one, 'a function'),
      invalid(new ObjectId(one), 'an instance of ObjectId'),
      invalid(new Account(one), 'an instance of Account'),
      invalid(new String(one), 'an instance of String'),
      invalid(Object(7), 'an instance of Number'),
      invalid(Object(7n), 'an instance of BigInt'),
      invalid(new Date(0), 'an instance of Date'),
      invalid(Buffer.from(one), 'an instance of Buffer'),
      invalid(new Uint8Array(2), 'an instance of Uint8Array'),
      invalid(new Map([[one, one]]), 'an instance of Map'),
      invalid(new URL(`http://${one}/`), 'an instance of URL'),
      invalid(new Error(one), 'an instance of Error'),
      invalid({ id: one, toString: () => one }, 'an object'),
      invalid(Object.assign(Object.create(null), { id: one }), 'an object'),
      invalid(new Proxy({ id: one }, {}), 'an object'),
      invalid(new Proxy(new ObjectId(one), {}), 'an instance of ObjectId'),
    ),
  ),
);

/** Values that only an item of a list can be: alone, a promise is awaited. */
const notItems = fc.constantFrom(
  invalid(undefined, 'undefined'),
  invalid(null, 'null'),
  invalid([], 'an array'),
  invalid(['a'], 'an array'),
  invalid([[7n]], 'an array'),
  invalid(Promise.resolve('a'), 'a promise'),
  invalid({ then: () => undefined }, 'a promise'),
);

const validLists = fc.array(parts, { minLength: 1, maxLength: 3 });

/** A list of valid parts, as an array of any kind. */
const lists = fc
  .tuple(validLists, fc.constantFrom('array', 'proxy', 'derived', 'frozen'))
  .map(([given, form]): GivenValue => {
    const values = given.map(({ value }) => value) as (string | number | bigint)[];
    const forms = {
      array: values,
      proxy: new Proxy([...values], {}),
      derived: Object.assign(new (class Parts extends Array {})(), values),
      frozen: Object.freeze([...values]),
    };
    return { value: forms[form], meaning: { kind: 'parts', parts: values } };
  });

/** A list with one part that is none, or with a hole. */
const wrongLists = fc
  .tuple(
    fc.array(parts, { maxLength: 2 }),
    fc.oneof(notParts, notItems, fc.constant('hole' as const)),
    fc.array(parts, { maxLength: 2 }),
  )
  .map(([before, wrong, after]) => {
    const list: unknown[] = before.map(({ value }) => value);
    const index = list.length;
    const problem = wrong === 'hole' ? { value: undefined, type: 'undefined' } : typed(wrong);
    list.length += 1;
    if (wrong !== 'hole') list[index] = problem.value;
    list.push(...after.map(({ value }) => value));
    return invalid(list, `${problem.type} at index ${String(index)}`);
  });

function typed({ value, meaning }: GivenValue): { value: unknown; type: string } {
  return { value, type: meaning.kind === 'invalid' ? meaning.type : '' };
}

function revoked(target: object): unknown {
  const { proxy, revoke } = Proxy.revocable(target, {});
  revoke();
  return proxy;
}

const unreadable = fc.constantFrom(
  invalid(
    Object.defineProperty(['a'], 0, {
      get: () => {
        throw new TypeError(SECRET);
      },
    }),
    'a value that cannot be read',
  ),
  invalid(new Proxy(['a'], { get: deny }), 'a value that cannot be read'),
);

function deny(_: object, name: string | symbol): unknown {
  if (name === 'then') return undefined;
  throw new TypeError(SECRET);
}

/** One part of a scope, valid or not, as the id of a user is. */
export const givenParts: fc.Arbitrary<GivenValue> = fc.oneof(none, parts, notParts);

/** What a scope function may return by mistake or not, and the empty list, which not every transport takes. */
export const givenScopes: fc.Arbitrary<GivenValue> = fc.oneof(
  { arbitrary: givenParts, weight: 4 },
  { arbitrary: lists, weight: 2 },
  { arbitrary: wrongLists, weight: 3 },
  { arbitrary: unreadable, weight: 1 },
  {
    arbitrary: fc.constant<GivenValue>({ value: [], meaning: { kind: 'parts', parts: [] } }),
    weight: 1,
  },
);

/** A proxy of which nothing can be asked. Whether it is a promise cannot be asked either. */
export const revokedProxies = [revoked({}), revoked([]), [revoked({})], ['a', revoked([])]];

const others = fc
  .oneof(notParts, notItems)
  .filter(({ value }) => value !== '' && value !== undefined && value !== null);

/** What a key function may return. Only a text is a key; two numbers in their texts would be one. */
export const givenKeys: fc.Arbitrary<GivenValue> = fc.oneof(
  none,
  text.map(part),
  number.map((one) => part(String(one))),
  number.map((one) => invalid(one, 'a number')),
  fc.bigInt().map((one) => invalid(one, 'a bigint')),
  others.map(({ value, meaning }) =>
    typeof value === 'number' ? invalid(value, 'a number') : { value, meaning },
  ),
);

/** Equal for equal callers only. */
export function identityOf(parts: readonly (string | number | bigint)[]): string {
  return JSON.stringify(parts.map((one) => [typeof one, String(one)]));
}

/** Compares callers with what they got: of a record, or of the one execution that it stands for. */
export class OneToOne {
  private readonly byIdentity = new Map<string, unknown>();
  private readonly byRecord = new Map<unknown, string>();

  /** @returns what is wrong, if anything. */
  compare(identity: string, record: unknown): string | undefined {
    const known = this.byIdentity.get(identity) ?? record;
    const owner = this.byRecord.get(record) ?? identity;
    this.byIdentity.set(identity, known);
    this.byRecord.set(record, owner);
    if (owner !== identity) return `${identity} has the record of ${owner}`;
    return known === record ? undefined : `${identity} has two records`;
  }
}
