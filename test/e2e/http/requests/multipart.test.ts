import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import multipart from '@fastify/multipart';
import {
  Controller,
  Post,
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
import { expectProblem, expectReplay } from '../../../support/http/expectations.js';
import { changed, form, type Part } from '../../../support/http/wire/form.js';
import { InScenario, Scenario } from '../../../support/http/scenario.js';
import { startApp, type TestApp } from '../../../support/http/start-app.js';

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
@Controller()
class MulterController {
  @Post('single')
  @Idempotent()
  @UseInterceptors(FileInterceptor('file'))
  single(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('single-on-disk')
  @Idempotent()
  @UseInterceptors(FileInterceptor('file', { dest: uploads }))
  singleOnDisk(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('several')
  @Idempotent()
  @UseInterceptors(FilesInterceptor('file'))
  several(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('by-field')
  @Idempotent()
  @UseInterceptors(FileFieldsInterceptor([{ name: 'file' }, { name: 'second' }]))
  byField(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('any')
  @Idempotent()
  @UseInterceptors(AnyFilesInterceptor())
  any(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('any-on-disk')
  @Idempotent()
  @UseInterceptors(AnyFilesInterceptor({ dest: uploads }))
  anyOnDisk(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('none')
  @Idempotent()
  @UseInterceptors(NoFilesInterceptor())
  none(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('bytes')
  @Idempotent({ fingerprint: 'bytes' })
  @UseInterceptors(FileInterceptor('file'))
  bytes(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('into-dto')
  @Idempotent()
  @UseInterceptors(FileInterceptor('file'), IntoDto)
  intoDto(@InScenario() scenario: Scenario) {
    return scenario.response();
  }
}

@Controller('of-class')
@UseInterceptors(FileInterceptor('file'))
class OutsideClassController {
  @Post()
  @Idempotent()
  single(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('into-dto')
  @Idempotent()
  @UseInterceptors(IntoDto)
  intoDto(@InScenario() scenario: Scenario) {
    return scenario.response();
  }
}

@Controller('protected-class')
@Idempotent()
class ProtectedClassController {
  @Post()
  @UseInterceptors(FileInterceptor('file'))
  single(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('into-dto')
  @UseInterceptors(NoFilesInterceptor(), IntoDto)
  intoDto(@InScenario() scenario: Scenario) {
    return scenario.response();
  }
}

/** Routes for every platform and every parser of forms. */
@Controller()
class AnyParserController {
  @Post('form')
  @Idempotent()
  form(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('included')
  @Idempotent({ fingerprint: { include: ['note', 'file'] } })
  included(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('excluded')
  @Idempotent({ fingerprint: { exclude: ['note', 'second', 'file.filename'] } })
  excluded(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('with-headers')
  @Idempotent({ fingerprint: { headers: ['If-Match'] } })
  withHeaders(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('uncompared')
  @Idempotent({ fingerprint: false })
  uncompared(@InScenario() scenario: Scenario) {
    return scenario.response();
  }
}

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
  apps.set(
    'express',
    await startApp({
      platform: 'express',
      store: memoryStore(),
      controllers: [MulterController, OutsideClassController, ProtectedClassController],
      rawBody: true,
    }),
  );
  apps.set(
    'express, global interceptor',
    await startApp({
      platform: 'express',
      store: memoryStore(),
      controllers: [AnyParserController],
      configure: (nest) => nest.useGlobalInterceptors(new (AnyFilesInterceptor())()),
    }),
  );
  apps.set(
    'express, global interceptors into a DTO',
    await startApp({
      platform: 'express',
      store: memoryStore(),
      controllers: [AnyParserController],
      configure: (nest) => nest.useGlobalInterceptors(new (AnyFilesInterceptor())(), new IntoDto()),
    }),
  );
  apps.set(
    'express, middleware',
    await startApp({
      platform: 'express',
      store: memoryStore(),
      controllers: [AnyParserController],
      configure: (nest) => nest.use(multerMiddleware()),
    }),
  );
  for (const attachFieldsToBody of [true, 'keyValues'] as const) {
    apps.set(
      `fastify, ${attachFieldsToBody}`,
      await startApp({
        platform: 'fastify',
        store: memoryStore(),
        controllers: [AnyParserController],
        configure: (nest) =>
          (nest as NestFastifyApplication).register(multipart, { attachFieldsToBody }),
      }),
    );
  }
});

afterAll(() => Promise.all([...apps.values()].map((app) => app.close())));

function multerMiddleware(): unknown {
  const interceptor = new (AnyFilesInterceptor())() as unknown as { multer: { any(): unknown } };
  return interceptor.multer.any();
}

function scenarioOf(name: string): Scenario {
  return apps.get(name)!.scenario();
}

async function expectSame(scenario: Scenario, path: string, one: Part[], other: readonly Part[]) {
  const first = await scenario.post(path, form(...one));
  expect(first).toMatchObject({ status: 201, json: { execution: 1 } });
  expectReplay(await scenario.post(path, form(...other)), first);
  expect(scenario.executions).toBe(1);
}

async function expectDifferent(
  scenario: Scenario,
  path: string,
  one: readonly Part[],
  other: readonly Part[],
) {
  const first = await scenario.post(path, form(...one));
  expect(first).toMatchObject({ status: 201, json: { execution: 1 } });
  expectProblem(await scenario.post(path, form(...other)), 'key-reused');
  expect(scenario.executions).toBe(1);
  expectReplay(await scenario.post(path, form(...one)), first);
}

describe.each(ways)(
  'C47 a multipart request on $app: $path',
  ({ app, path, files, isNameless }) => {
    const parts = [note, ...files];

    it('is replayed when the boundary changes', () =>
      expectSame(scenarioOf(app), path, parts, parts));

    it('is the same in any order of differently named parts', () =>
      expectSame(scenarioOf(app), path, parts, [...files, note]));

    it.each([
      ['another value', changed(parts, 'note', { value: 'another' })],
      ['an additional part', [...parts, { name: 'more', value: '' }]],
      ['one part removed', files],
      ['a repeated part', [...parts, note]],
      ['a renamed part', changed(parts, 'note', { name: 'Note' })],
    ])('is different with %s', (_, other) => expectDifferent(scenarioOf(app), path, parts, other));

    it('is different when the values of one name change their order', () => {
      const more = { ...note, value: 'more' };
      return expectDifferent(scenarioOf(app), path, [note, more], [more, note]);
    });

    if (files.length === 0) return;

    it.each([
      ['other bytes', { value: 'Content' }],
      ['no bytes', { value: '' }],
      ['bytes that are not text', { value: Buffer.from([0xff, 0xfe, 0x00]) }],
    ])('is different with %s in a file', (_, change) =>
      expectDifferent(scenarioOf(app), path, parts, changed(parts, 'file', change)),
    );

    it('is different when different bytes decode to the same text', () => {
      const one = changed(parts, 'file', { value: Buffer.from([0xff]) });
      const other = changed(parts, 'file', { value: Buffer.from([0xfe]) });
      return expectDifferent(scenarioOf(app), path, one, other);
    });

    it('is different without its file', () =>
      expectDifferent(scenarioOf(app), path, parts, [note]));

    it('is different when a field has the bytes of the file', () =>
      expectDifferent(scenarioOf(app), path, parts, [
        note,
        ...files.map(({ name, value }) => ({ name, value })),
      ]));

    const whatItIs = [{ filename: 'b.txt' }, { type: 'text/html' }];
    const expectation = isNameless === true ? expectSame : expectDifferent;
    it.each(whatItIs)(
      isNameless === true
        ? 'is the same with a file of %j, which the parser drops'
        : 'is different with a file of %j',
      (change) => expectation(scenarioOf(app), path, parts, changed(parts, 'file', change)),
    );

    if (files.length < 2) return;

    it('is different when the bytes of two files are swapped', () => {
      const [one, two] = files;
      const swapped = [
        { ...one!, value: 'two' },
        { ...two!, value: 'one' },
      ];
      const original = [
        { ...one!, value: 'one' },
        { ...two!, value: 'two' },
      ];
      return expectDifferent(scenarioOf(app), path, original, swapped);
    });
  },
);

describe.each(['express, global interceptor', 'fastify, true', 'fastify, keyValues'])(
  'C47 a multipart request compared in part, on %s',
  (app) => {
    const parts = [note, file, second];

    it('include compares the fields and files that it names', async () => {
      const path = '/included';
      const other = [...changed(parts, 'second', { value: 'x' }), { name: 'n', value: '1' }];
      await expectSame(scenarioOf(app), path, parts, other);
      await expectDifferent(scenarioOf(app), path, parts, changed(parts, 'note', { value: 'x' }));
      await expectDifferent(scenarioOf(app), path, parts, changed(parts, 'file', { value: 'x' }));
    });

    it('exclude ignores fields, files and file names', async () => {
      const path = '/excluded';
      await expectSame(scenarioOf(app), path, parts, changed(parts, 'note', { value: 'x' }));
      await expectSame(scenarioOf(app), path, parts, changed(parts, 'second', { value: 'x' }));
      await expectSame(scenarioOf(app), path, parts, [note, second, { ...file, filename: 'x' }]);
      await expectDifferent(scenarioOf(app), path, parts, changed(parts, 'file', { value: 'x' }));
    });

    it('headers are compared besides the parts', async () => {
      const path = '/with-headers';
      await expectDifferent(scenarioOf(app), path, parts, changed(parts, 'file', { value: 'x' }));
      const scenario = scenarioOf(app);
      const first = await scenario.post(path, form(...parts));
      expectProblem(
        await scenario.post(path, { ...form(...parts), headers: [['If-Match', '"1"']] }),
        'key-reused',
      );
      expectReplay(await scenario.post(path, form(...parts)), first);
    });

    it('false compares nothing', () =>
      expectSame(scenarioOf(app), '/uncompared', parts, [{ name: 'x', value: 'y' }]));

    it('a large file is compared to its last byte', async () => {
      const large = Buffer.alloc(700_000, 'x');
      const other = Buffer.from(large);
      other[other.length - 1] = 0;
      await expectDifferent(
        scenarioOf(app),
        '/form',
        changed(parts, 'file', { value: large }),
        changed(parts, 'file', { value: other }),
      );
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
      await expectDifferent(scenarioOf(app), path, [note], [{ ...note, value: 'another' }]);
    });
  },
);

describe('C47 a form field that is JSON, on Fastify', () => {
  const json = (value: string): Part => ({ name: 'note', value, type: 'application/json' });

  it.each(['true', 'keyValues'])(
    'is compared by value with attachFieldsToBody: %s',
    async (mode) => {
      const app = `fastify, ${mode}`;
      await expectSame(
        scenarioOf(app),
        '/form',
        [json('{"a":1,"b":2}')],
        [json('{"b":2, "a":1.0}')],
      );
      await expectDifferent(scenarioOf(app), '/form', [json('{"a":1}')], [json('{"a":"1"}')]);
      await expectDifferent(scenarioOf(app), '/form', [json('1')], [{ name: 'note', value: '1' }]);
    },
  );

  it.each(['true', 'keyValues'])(
    'differs from its only item with attachFieldsToBody: %s',
    async (mode) => {
      const app = `fastify, ${mode}`;
      await expectDifferent(scenarioOf(app), '/form', [json('[5]')], [json('5')]);
      await expectDifferent(scenarioOf(app), '/form', [json('null')], [json('[null]')]);
      const text: Part = { name: 'note', value: 'x' };
      await expectDifferent(scenarioOf(app), '/form', [json('["x"]')], [text]);
      await expectDifferent(scenarioOf(app), '/included', [json('["x"]')], [text]);
    },
  );

  it.each(['true', 'keyValues'])('cannot imitate a part with attachFieldsToBody: %s', (mode) => {
    const forged = (extra: number) =>
      json(JSON.stringify({ type: 'field', fieldname: 'note', value: 1, fields: {}, extra }));
    return expectDifferent(scenarioOf(`fastify, ${mode}`), '/form', [forged(1)], [forged(2)]);
  });

  it('is rejected where it is nested too deeply', async () => {
    const scenario = scenarioOf('fastify, keyValues');
    const deep = json('['.repeat(2_000) + ']'.repeat(2_000));
    expectProblem(await scenario.post('/form', form(deep)), 'content-invalid');
    expect(scenario.executions).toBe(0);
  });
});
