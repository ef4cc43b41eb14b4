import { expect, it } from '@jest/globals';
import { type Group, type Schema, resolve } from '../../support/internals/core.js';

interface Planted {
  readonly size?: number;
}

interface Options {
  readonly planted?: Planted;
}

interface Resolved {
  readonly planted: Required<Planted>;
}

const check = () => undefined;

it('a field without a check, without a default or for nothing does not compile', () => {
  const complete: Group<Planted, Required<Planted>> = { fields: { size: { default: 1, check } } };
  const schema: Schema<Options, Resolved> = { planted: complete };
  expect(resolve(schema, [])).toEqual({ planted: { size: 1 } });

  // @ts-expect-error -- no check
  const unchecked: typeof complete = { fields: { size: { default: 1 } } };
  // @ts-expect-error -- no default, and the resolved option always has a value
  const absent: typeof complete = { fields: { size: { check } } };
  // @ts-expect-error -- a default of another type
  const other: typeof complete = { fields: { size: { default: 'one', check } } };
  // @ts-expect-error -- no field for the option
  const empty: typeof complete = { fields: {} };
  // @ts-expect-error -- no option for the field
  const more: typeof complete = { fields: { ...complete.fields, weight: { default: 1, check } } };
  // @ts-expect-error -- no default, and none described
  const optional: Group<Planted, Planted> = { fields: { size: { check } } };
  // @ts-expect-error -- no group for the options
  const nothing: typeof schema = {};
  const given = { planted: { size: 2 } };
  const wrong = [unchecked, absent, other, empty, more, optional].map((group) => ({
    planted: group as typeof complete,
  }));
  for (const each of [...wrong, nothing]) {
    const isRight = () =>
      expect([
        resolve(each, [{ what: 'the test', place: 'call', given }]),
        resolve(each, []),
        Object.keys(resolve(each, []).planted),
      ]).toEqual([given, { planted: { size: 1 } }, ['size']]);
    expect(isRight).toThrow();
  }
});

it('each value is checked once where it is given, also one that another level overrides', () => {
  const seen: unknown[] = [];
  const counted: Schema<Options, Resolved> = {
    planted: {
      fields: { size: { default: 0, check: (option, value) => void seen.push([option, value]) } },
    },
  };
  const levels = [1, 2, undefined].map((size) => ({
    what: 'the test',
    place: 'class' as const,
    given: { planted: { size } },
  }));
  expect(resolve(counted, levels)).toEqual({ planted: { size: 2 } });
  expect(seen).toEqual([
    ['planted.size', 1],
    ['planted.size', 2],
  ]);
});
