import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import multipart from '@fastify/multipart';
import {
  Controller,
  UseInterceptors,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import {
  AnyFilesInterceptor,
  FileFieldsInterceptor,
  FileInterceptor,
  FilesInterceptor,
  NoFilesInterceptor,
} from '@nestjs/platform-express';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { expectProblem, expectReplay, problems } from '../../../support/http/expectations.js';
import { controllerOf, respond } from '../../../support/http/routes-of.js';
import { changed, form, type Part } from '../../../support/http/wire/form.js';
import type { Scenario } from '../../../support/http/scenario.js';
import { startApp, type StartAppOptions, type TestApp } from '../../../support/http/start-app.js';

const uploads = await mkdtemp(join(tmpdir(), 'uploads-'));
afterAll(() => rm(uploads, { recursive: true }));

/** Replaces the form's fields by an instance of the application's own class. */
class OrderDto {
  constructor(readonly fields: object) {}
}

class IntoDto implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler) {
    const request = context.switchToHttp().getRequest<{ body: object }>();
    request.body = new OrderDto({ ...request.body });
    return next.handle();
  }
}

// Decorators apply from the bottom: the forms are parsed before the library sees the request.
const MulterController = controllerOf('MulterController', {
  single: [Idempotent(), UseInterceptors(FileInterceptor('file')), respond],
  'single-on-disk': [
    Idempotent(),
    UseInterceptors(FileInterceptor('file', { dest: uploads })),
    respond,
  ],
  several: [Idempotent(), UseInterceptors(FilesInterceptor('file')), respond],
  'by-field': [
    Idempotent(),
    UseInterceptors(FileFieldsInterceptor([{ name: 'file' }, { name: 'second' }])),
    respond,
  ],
  any: [Idempotent(), UseInterceptors(AnyFilesInterceptor()), respond],
  'any-on-disk': [Idempotent(), UseInterceptors(AnyFilesInterceptor({ dest: uploads })), respond],
  none: [Idempotent(), UseInterceptors(NoFilesInterceptor()), respond],
  bytes: [Idempotent({ fingerprint: 'bytes' }), UseInterceptors(FileInterceptor('file')), respond],
  'into-dto': [Idempotent(), UseInterceptors(FileInterceptor('file'), IntoDto), respond],
});

const OutsideClassController = controllerOf(
  'OutsideClassController',
  {
    '/': [Idempotent(), respond],
    'into-dto': [Idempotent(), UseInterceptors(IntoDto), respond],
  },
  Controller('of-class'),
  UseInterceptors(FileInterceptor('file')),
);

const ProtectedClassController = controllerOf(
  'ProtectedClassController',
  {
    '/': [UseInterceptors(FileInterceptor('file')), respond],
    'into-dto': [UseInterceptors(NoFilesInterceptor(), IntoDto), respond],
  },
  Controller('protected-class'),
  Idempotent(),
);

/** Routes for every platform and every parser of forms. */
const AnyParserController = controllerOf('AnyParserController', {
  form: [Idempotent(), respond],
  included: [Idempotent({ fingerprint: { include: ['note', 'file'] } }), respond],
  excluded: [
    Idempotent({ fingerprint: { exclude: ['note', 'second', 'file.filename'] } }),
    respond,
  ],
  'with-headers': [Idempotent({ fingerprint: { headers: ['If-Match'] } }), respond],
  uncompared: [Idempotent({ fingerprint: false }), respond],
});

const note: Part = { name: 'note', value: 'a note' };
const file: Part = { name: 'file', value: 'content', filename: 'a.txt', type: 'text/plain' };
const second: Part = { name: 'second', value: 'other', filename: 'b.txt', type: 'text/plain' };

/** The ways in which a form reaches the library, and what each can distinguish. */
const ways: readonly {
  readonly app: string;
  readonly path: string;
  /** The parts that the parser accepts besides the note. */
  readonly files: readonly Part[];
  /** The parser drops a file's name and media type. */
  readonly isNameless?: true;
}[] = [
  { app: 'express', path: '/single', files: [file] },
  { app: 'express', path: '/single-on-disk', files: [file] },
  { app: 'express', path: '/several', files: [file, file] },
  { app: 'express', path: '/by-field', files: [file, second] },
  { app: 'express', path: '/any', files: [file, second, file] },
  { app: 'express', path: '/any-on-disk', files: [file, second] },
  { app: 'express', path: '/none', files: [] },
  { app: 'express', path: '/bytes', files: [file] },
  { app: 'express', path: '/of-class', files: [file] },
  { app: 'express', path: '/protected-class', files: [file] },
  { app: 'express, global interceptor', path: '/form', files: [file, second] },
  { app: 'express, middleware', path: '/form', files: [file, second] },
  { app: 'fastify, true', path: '/form', files: [file, second, file] },
  { app: 'fastify, keyValues', path: '/form', files: [file, second, file], isNameless: true },
];

const apps = new Map<string, TestApp>();

beforeAll(async () => {
  const start = async (name: string, more: Partial<StartAppOptions> = {}) => {
    const platform = name.startsWith('express') ? 'express' : 'fastify';
    const controllers = [AnyParserController];
    apps.set(name, await startApp({ platform, store: memoryStore(), controllers, ...more }));
  };
  await start('express', {
    controllers: [MulterController, OutsideClassController, ProtectedClassController],
    rawBody: true,
  });
  const parsing = new (AnyFilesInterceptor())();
  await start('express, global interceptor', {
    configure: (nest) => nest.useGlobalInterceptors(parsing),
  });
  await start('express, global interceptors into a DTO', {
    configure: (nest) => nest.useGlobalInterceptors(parsing, new IntoDto()),
  });
  const { multer } = parsing as unknown as { multer: { any(): unknown } };
  await start('express, middleware', { configure: (nest) => nest.use(multer.any()) });
  for (const attachFieldsToBody of [true, 'keyValues'] as const) {
    await start(`fastify, ${attachFieldsToBody}`, {
      configure: (nest) =>
        (nest as NestFastifyApplication).register(multipart, { attachFieldsToBody }),
    });
  }
});

afterAll(() => Promise.all([...apps.values()].map((app) => app.close())));

function scenarioOf(name: string): Scenario {
  return apps.get(name)!.scenario();
}

type Parts = readonly Part[];

async function expectSame(scenario: Scenario, path: string, one: Parts, ...others: Parts[]) {
  const first = await scenario.post(path, form(...one));
  expect(first).toMatchObject({ status: 201, json: { execution: 1 } });
  for (const other of others) expectReplay(await scenario.post(path, form(...other)), first);
  expect(scenario.executions).toBe(1);
}

/** @param others - by what distinguishes each. */
async function expectDifferent(
  scenario: Scenario,
  path: string,
  one: Parts,
  others: Readonly<Record<string, Parts>>,
) {
  const first = await scenario.post(path, form(...one));
  expect(first).toMatchObject({ status: 201, json: { execution: 1 } });
  const { status } = problems['key-reused'];
  for (const [what, other] of Object.entries(others)) {
    const response = await scenario.post(path, form(...other));
    expect({ what, status: response.status }).toEqual({ what, status });
    expectProblem(response, 'key-reused');
  }
  expect(scenario.executions).toBe(1);
  expectReplay(await scenario.post(path, form(...one)), first);
}

describe.each(ways)(
  'C47 a multipart request on $app: $path',
  ({ app, path, files, isNameless }) => {
    const parts = [note, ...files];
    const withFile = (change: Partial<Part>) => changed(parts, 'file', change);

    it('is replayed when the boundary changes, and in any order of differently named parts', () =>
      expectSame(scenarioOf(app), path, parts, parts, [...files, note]));

    it('is different with another field', async () => {
      await expectDifferent(scenarioOf(app), path, parts, {
        'another value': changed(parts, 'note', { value: 'another' }),
        'an additional part': [...parts, { name: 'more', value: '' }],
        'one part removed': files,
        'a repeated part': [...parts, note],
        'a renamed part': changed(parts, 'note', { name: 'Note' }),
      });
      const more = { ...note, value: 'more' };
      const swapped = { 'the values of one name in another order': [more, note] };
      await expectDifferent(scenarioOf(app), path, [note, more], swapped);
    });

    if (files.length === 0) return;

    const whatItIs = {
      'another name': { filename: 'b.txt' },
      'another type': { type: 'text/html' },
    };

    it('is different with another file', async () => {
      await expectDifferent(scenarioOf(app), path, parts, {
        'other bytes': withFile({ value: 'Content' }),
        'no bytes': withFile({ value: '' }),
        'bytes that are not text': withFile({ value: Buffer.from([0xff, 0xfe, 0x00]) }),
        'no file': [note],
        'a field that has the bytes of the file': [
          note,
          ...files.map(({ name, value }) => ({ name, value })),
        ],
        ...(isNameless === true
          ? {}
          : Object.fromEntries(Object.entries(whatItIs).map(([k, v]) => [k, withFile(v)]))),
      });
      await expectDifferent(scenarioOf(app), path, withFile({ value: Buffer.from([0xff]) }), {
        'bytes that decode to the same text': withFile({ value: Buffer.from([0xfe]) }),
      });
    });

    if (isNameless === true) {
      it('is the same with another name or type of its file, which the parser drops', () =>
        expectSame(scenarioOf(app), path, parts, ...Object.values(whatItIs).map(withFile)));
    }

    const [one, two] = files;
    if (two === undefined) return;

    it('is different when the bytes of two files are swapped', () => {
      const having = (first: string, second: string) => [
        { ...one!, value: first },
        { ...two, value: second },
      ];
      const swapped = { 'swapped bytes': having('two', 'one') };
      return expectDifferent(scenarioOf(app), path, having('one', 'two'), swapped);
    });
  },
);

describe.each(['express, global interceptor', 'fastify, true', 'fastify, keyValues'])(
  'C47 a multipart request compared in part, on %s',
  (app) => {
    const parts = [note, file, second];
    const withOther = (name: string) => changed(parts, name, { value: 'x' });

    it('include compares the fields and files that it names', async () => {
      const path = '/included';
      const other = [...withOther('second'), { name: 'n', value: '1' }];
      await expectSame(scenarioOf(app), path, parts, other);
      const named = { 'another note': withOther('note'), 'another file': withOther('file') };
      await expectDifferent(scenarioOf(app), path, parts, named);
    });

    it('exclude ignores fields, files and file names', async () => {
      const path = '/excluded';
      const renamed = [note, second, { ...file, filename: 'x' }];
      await expectSame(
        ...([scenarioOf(app), path, parts] as const),
        ...[withOther('note'), withOther('second'), renamed],
      );
      const other = { 'another file': withOther('file') };
      await expectDifferent(scenarioOf(app), path, parts, other);
    });

    it('headers are compared besides the parts', async () => {
      const path = '/with-headers';
      const scenario = scenarioOf(app);
      await expectDifferent(scenario, path, parts, { 'another file': withOther('file') });
      const headers = [['If-Match', '"1"']] as const;
      expectProblem(await scenario.post(path, { ...form(...parts), headers }), 'key-reused');
    });

    it('false compares nothing', () =>
      expectSame(scenarioOf(app), '/uncompared', parts, [{ name: 'x', value: 'y' }]));

    it('a large file is compared to its last byte', async () => {
      const large = Buffer.alloc(700_000, 'x');
      const other = Buffer.from(large);
      other[other.length - 1] = 0;
      await expectDifferent(scenarioOf(app), '/form', changed(parts, 'file', { value: large }), {
        'another last byte': changed(parts, 'file', { value: other }),
      });
    });
  },
);

describe.each([
  ['express', '/into-dto'],
  ['express', '/of-class/into-dto'],
  ['express', '/protected-class/into-dto'],
  ['express, global interceptors into a DTO', '/form'],
])(
  'C47 a form without a file that an earlier interceptor replaced by a DTO, on %s: %s',
  (app, path) => {
    it('is compared by its fields', async () => {
      await expectSame(scenarioOf(app), path, [note], [note]);
      const other = { 'another value': [{ ...note, value: 'another' }] };
      await expectDifferent(scenarioOf(app), path, [note], other);
    });
  },
);

const json = (value: string): Part => ({ name: 'note', value, type: 'application/json' });

describe.each(['fastify, true', 'fastify, keyValues'])(
  'C47 a form field that is JSON, on %s',
  (app) => {
    const text = (value: string): Part => ({ name: 'note', value });
    const expectOther = (one: Part, what: string, other: Part, path = '/form') =>
      expectDifferent(scenarioOf(app), path, [one], { [what]: [other] });

    it('is compared by value', async () => {
      const [one, same] = [json('{"a":1,"b":2}'), json('{"b":2, "a":1.0}')];
      await expectSame(scenarioOf(app), '/form', [one], [same]);
      await expectOther(json('{"a":1}'), 'a string', json('{"a":"1"}'));
      await expectOther(json('1'), 'a text', text('1'));
    });

    it('differs from its only item', async () => {
      await expectOther(json('[5]'), 'the item', json('5'));
      await expectOther(json('null'), 'a list of it', json('[null]'));
      await expectOther(json('["x"]'), 'a text', text('x'));
      await expectOther(json('["x"]'), 'a text', text('x'), '/included');
    });

    it('cannot imitate a part', () => {
      const forged = (extra: number) =>
        json(JSON.stringify({ type: 'field', fieldname: 'note', value: 1, fields: {}, extra }));
      return expectOther(forged(1), 'another member', forged(2));
    });
  },
);

it('C47 a form field that is JSON is rejected on Fastify where it is nested too deeply', async () => {
  const scenario = scenarioOf('fastify, keyValues');
  const deep = json('['.repeat(2_000) + ']'.repeat(2_000));
  expectProblem(await scenario.post('/form', form(deep)), 'content-invalid');
  expect(scenario.executions).toBe(0);
});
