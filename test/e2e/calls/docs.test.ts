import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { jsonCodec, type OutcomeCodec } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { messagePackCodec } from 'nestjs-idempotency/messagepack';
import { PROTOCOL_DEFAULTS, REJECTION_CODES } from '../../support/internals/core/operation.js';
import { methodRoute } from '../../support/internals/nest/registry.js';
import { projectRoot } from '../../support/project-root.js';

const PAGE = 'docs/guides/calls.md';
const page = readFileSync(join(projectRoot, PAGE), 'utf8');

/** The rows of a page's table, without its header. */
function tableOf(path: string): string[][] {
  const rows = readFileSync(join(projectRoot, path), 'utf8').matchAll(/^\| (.*) \|$/gm);
  const cells = [...rows].map(([, row = '']) => row.split(' | ').map((cell) => cell.trim()));
  return cells.filter(([first = '']) => !/^-+$/.test(first)).slice(1);
}

describe('the page about calls', () => {
  it('names all options besides the protocol’s', () => {
    let known: string[] = [];
    try {
      methodRoute('A.b', { store: memoryStore() }, undefined, {
        key: String,
        nothing: 1,
      } as object);
    } catch (error) {
      known = /Valid options: (.*)\.$/.exec((error as Error).message)![1]!.split(', ');
    }
    const options = page.matchAll(/^\| `(\w+)` +\| .* +\| .* +\|$/gm);
    expect([...options].map(([, name]) => name).sort()).toEqual(
      known.filter((name) => !(name in PROTOCOL_DEFAULTS)).sort(),
    );
  });

  it.each([...new Set(Object.values(REJECTION_CODES))])('names the code %s', (code) => {
    const [, section = ''] = page.split('\n### What a caller gets\n');
    expect(section.split('\n## ')[0]).toContain(`\`${code}\``);
  });
});

describe('the table of values', () => {
  class Point {
    readonly x = 1;
  }
  const SYMBOL: unique symbol = Symbol('x');
  class Hidden {
    readonly #x = 1;
    readonly [SYMBOL] = 1;
    sum() {
      return this.#x;
    }
  }
  // Node 26 has it.
  const { Temporal } = globalThis as {
    readonly Temporal?: { PlainDate: { from(text: string): object } };
  };
  const TEMPORAL = Temporal === undefined ? [] : [Temporal.PlainDate.from('2026-11-29')];

  /** The values of each row. */
  const values: Record<string, readonly unknown[]> = {
    'texts, finite numbers, booleans, null': ['t', 1.5, true, null],
    'arrays and objects of these': [[1, ['a']], { a: { b: null } }],
    'a member that is undefined': [{ a: undefined }],
    'an item that is undefined': [[undefined]],
    'Date, URL': [new Date(0), new URL('http://a/b')],
    Temporal: TEMPORAL,
    'BigInt, Map, Set, NaN, the infinities': [1n, new Map([[1, 2]]), new Set([1]), NaN, Infinity],
    'Buffer and Uint8Array inside a value': [{ a: Buffer.from('b') }, { a: new Uint8Array([1]) }],
    'other binary data (typed arrays, ArrayBuffer)': [new Uint16Array([1]), new ArrayBuffer(1)],
    'instances of your classes': [new Point()],
    'members whose names are symbols, or private': [new Hidden()],
    'functions, symbols, circles, Errors, Promises, …': [
      () => 1,
      Symbol('s'),
      new Error('e'),
      Promise.resolve(1),
    ],
    'RegExp, Intl, URLSearchParams, `new Number(1)`': [
      /a/,
      new Intl.NumberFormat(),
      new URLSearchParams('a=1'),
      Object(1),
    ],
  };
  const rows = tableOf('docs/guides/values.md');

  it('has the rows that are tested', () => {
    expect(rows.map(([row]) => row)).toEqual(Object.keys(values));
  });

  const roundTrip = (codec: OutcomeCodec, value: unknown) => codec.decode(codec.encode(value));

  it.each(rows.map(([row = '', json = '', messagePack = '']) => ({ row, json, messagePack })))(
    'names the result for $row',
    ({ row, json, messagePack }) => {
      const expected = messagePack === 'the same' ? json : messagePack;
      for (const [codec, reported] of [
        [jsonCodec(), json],
        [messagePackCodec(), expected],
      ] as const) {
        for (const value of values[row]!) {
          if (reported.startsWith('an error')) expect(() => codec.encode(value)).toThrow();
          else if (reported === 'left out') expect(roundTrip(codec, value)).toStrictEqual({});
          else if (reported.startsWith('their members'))
            expect(roundTrip(codec, value)).toStrictEqual({ x: 1 });
          else expect(roundTrip(codec, value)).toStrictEqual(value);
        }
      }
      if (row === 'Date, URL') {
        expect(json).toContain("dates: 'text'");
        expect(roundTrip(jsonCodec({ dates: 'text' }), new Date(0))).toBe(
          '1970-01-01T00:00:00.000Z',
        );
      }
    },
  );
});
