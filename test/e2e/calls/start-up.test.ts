import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  Controller,
  Injectable,
  mixin,
  Module,
  type ModuleMetadata,
  Post,
  type Provider,
  type Type,
} from '@nestjs/common';
import { describe, expect, it, jest } from '@jest/globals';
import {
  type IdempotencyModuleOptions,
  IdempotencyOptionsError,
  Idempotent,
  jsonCodec,
  type OutcomeCodec,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { messagePackCodec } from 'nestjs-idempotency/messagepack';
import { optionAt } from '../../support/nest/option-at.js';
import { callingApp, rejection } from '../../support/nest/calling-app.js';
import { PROTOCOL_DEFAULTS, REJECTION_CODES } from '../../support/internals/core.js';
import { methodRoute } from '../../support/internals/nest.js';
import { projectRoot } from '../../support/project-root.js';

async function start(metadata: ModuleMetadata, options: Partial<IdempotencyModuleOptions> = {}) {
  const { nest } = await callingApp(metadata, options);
  await nest.close();
}

/** The message with which an application fails to start. */
async function startError(...[metadata, options]: Parameters<typeof start>): Promise<string> {
  const error = await rejection(start(metadata, options));
  expect(error).toBeInstanceOf(IdempotencyOptionsError);
  return error.message as string;
}

/** A service with one method that has these options. */
function service(options: object): Type {
  @Injectable()
  class Payments {
    @Idempotent(options)
    async charge(id: string) {
      return Promise.resolve(id);
    }
  }
  return Payments;
}

const key = (id: string) => id;

describe('an application starts', () => {
  it('with a method that has all options', async () => {
    const all = {
      operation: 'payments.charge',
      key,
      scope: () => 'acme',
      payload: () => 1,
      onRejected: () => undefined,
      outcome: () => true,
      duplicates: 'wait',
      lease: { durationMs: 1_000, onTakeover: 'reject' },
      storeErrors: { whenNotSaved: 'error' },
      transaction: false,
    };
    await expect(start({ providers: [service(all)] })).resolves.toBeUndefined();
  });

  it('with one class in two modules', async () => {
    const Payments = service({ key });
    @Module({ providers: [Payments] })
    class Other {}
    await expect(start({ imports: [Other], providers: [Payments] })).resolves.toBeUndefined();
  });
});

describe('a method stops the start', () => {
  it('without a key, if it handles no requests', async () => {
    const message = await startError({ providers: [service({})] });
    expect(message).toContain('Payments.charge has @Idempotent()');
    expect(message).toContain('"key"');
    expect(message).toContain('@Post()');
  });

  it('whose key is the name of a header', async () => {
    expect(await startError({ providers: [service({ key: 'X-Key' })] })).toContain('"key"');
  });

  it.each([
    ['operation', ''],
    ['scope', 'acme'],
    ['payload', {}],
    ['onRejected', 'delay'],
    ['outcome.keep', true],
    ['outcome.codec', {}],
    ['lease.durationMs', 1],
    ['lease.onTakeover', 'never'],
  ])('with an invalid %s', async (option, value) => {
    const message = await startError({ providers: [service({ key, ...optionAt(option, value) })] });
    expect(message).toContain(`"${option}"`);
  });

  it.each([
    ['fingerprint', 'Give what is compared by "payload".'],
    ['caller', 'Give the caller by "scope".'],
    ['http', 'It is an option of request and message handlers.'],
    ['colour', 'onRejected'],
    ['keys', 'Did you mean "key"?'],
    ['store', 'IdempotencyModule.forRoot({ … })'],
  ])('with %s, which is not an option of a method', async (option, remedy) => {
    const message = await startError({ providers: [service({ key, [option]: true })] });
    expect(message).toContain(`"${option}" is not an option of @Idempotent() on a method`);
    expect(message).toContain(remedy);
  });

  it('that is transactional without a unit of work', async () => {
    const message = await startError({ providers: [service({ key, transaction: true })] });
    expect(message).toContain('"unitOfWork"');
  });

  it('that shares its operation with another method or a route', async () => {
    @Injectable()
    class Refunds {
      @Idempotent({ operation: 'payments', key })
      async refund(id: string) {
        return Promise.resolve(id);
      }
    }
    @Controller()
    class PaymentsController {
      @Post()
      @Idempotent({ operation: 'payments' })
      pay() {
        return 'paid';
      }
    }
    const Payments = service({ operation: 'payments', key });
    const two = await startError({ providers: [Payments, Refunds] });
    expect(two).toMatch(/Payments\.charge \(in .+\) and Refunds\.refund \(in /);
    const route = await startError({ controllers: [PaymentsController], providers: [Payments] });
    expect(route).toMatch(/PaymentsController\.pay \(POST .+, in .+\) and Payments\.charge \(in /);
  });

  it('that two classes inherit with the same operation', async () => {
    const Payments = service({ operation: 'payments', key });
    @Injectable()
    class Derived extends Payments {}
    expect(await startError({ providers: [Payments, Derived] })).toContain('"payments"');
  });

  it('that is static, when its class is defined', () => {
    const bad = () => {
      class Payments {
        @(Idempotent({ key }) as MethodDecorator)
        static charge(id: string) {
          return id;
        }

        refund(id: string) {
          return id;
        }
      }
      return Payments;
    };
    expect(bad).toThrow(IdempotencyOptionsError);
    expect(bad).toThrow('charge, which is static');
  });

  it('of a mixin, whose name differs in every process', async () => {
    const message = await startError({ providers: [mixin(service({ key }))] });
    expect(message).toContain('mixin() of Nest has given a random name');
    const named = mixin(service({ key, operation: 'payments' }));
    await expect(start({ providers: [named] })).resolves.toBeUndefined();
  });

  it('of an instance that Nest did not create', async () => {
    const Payments = service({ key });
    const provided: Provider[] = [
      { provide: 'payments', useFactory: () => new Payments() as object },
      { provide: 'payments', useValue: new Payments() as object },
    ];
    for (const provider of provided) {
      const message = await startError({ providers: [provider] });
      expect(message).toContain('Payments.charge has @Idempotent()');
      expect(message).toContain('useFactory or useValue');
    }
    const known = { provide: 'payments', useFactory: (it: object) => it, inject: [Payments] };
    const alias = { provide: 'alias', useExisting: Payments };
    await expect(start({ providers: [Payments, known, alias] })).resolves.toBeUndefined();
  });

  it('but not of an instance whose protected methods are mocks', async () => {
    const Payments = service({ key });
    const spied = new Payments() as { charge(): Promise<string> };
    jest.spyOn(spied, 'charge').mockResolvedValue('spied');
    // As Sinon's createStubInstance() does.
    const stub = Object.assign(() => undefined, { isSinonProxy: true });
    const stubbed = Object.assign(Object.create(Payments.prototype as object), { charge: stub });
    for (const double of [spied, stubbed] as object[]) {
      const providers = [{ provide: Payments, useValue: double }];
      await expect(start({ providers })).resolves.toBeUndefined();
    }
  });
});

describe('@Idempotent() on a class', () => {
  it('stops the start where it protects no method', async () => {
    @Injectable()
    @Idempotent()
    class Payments {
      charge() {
        return 'charged';
      }
    }
    const message = await startError({ providers: [Payments] });
    expect(message).toContain('@Idempotent() on Payments protects request handlers');
    expect(message).toContain('"key"');
  });

  it('passes its options to the methods that have their own decorator', async () => {
    @Injectable()
    @Idempotent({ lease: { durationMs: 1_000 }, duplicates: { retryAfterMs: 7_000 } })
    class Payments {
      @Idempotent({ key })
      async charge(id: string): Promise<unknown> {
        return (await rejection(this.charge(id))).retryAfterMs;
      }

      @Idempotent({ key, duplicates: { retryAfterMs: 8_000 } })
      async refund(id: string): Promise<unknown> {
        return (await rejection(this.refund(id))).retryAfterMs;
      }
    }
    const { nest } = await callingApp({ providers: [Payments] });
    const payments = nest.get(Payments);
    expect(await payments.charge('k')).toBe(7_000);
    expect(await payments.refund('k')).toBe(8_000);
    await nest.close();
  });
});

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
