import multipart from '@fastify/multipart';
import { Controller, Logger, Post, UseInterceptors, type ExecutionContext } from '@nestjs/common';
import { FileInterceptor } from '@nestjs/platform-express';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { expectProblem, expectReplay } from '../../../support/http/expectations.js';
import { changed, form, type Part } from '../../../support/http/wire/form.js';
import { InScenario, Scenario } from '../../../support/http/scenario.js';
import { startApp, type TestApp } from '../../../support/http/start-app.js';
import { LoggedLines } from '../../../support/nest/logged-lines.js';

const parts: readonly Part[] = [
  { name: 'note', value: 'a note' },
  { name: 'file', value: 'content', filename: 'a.txt', type: 'text/plain' },
];

/** A storage that discards the bytes and reports `kept` as the file's properties. */
function storage(kept: object) {
  return {
    _handleFile: (
      _: unknown,
      { stream }: { stream: NodeJS.ReadableStream },
      done: (error: null, kept: object) => void,
    ) => void stream.once('end', () => done(null, kept)).resume(),
    _removeFile: (_request: unknown, _file: unknown, done: (error: null) => void) => done(null),
  };
}

@Controller()
class ExpressFormsController {
  @Post('unparsed')
  @Idempotent()
  unparsed(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('unparsed-by-bytes')
  @Idempotent({ fingerprint: 'bytes' })
  unparsedByBytes(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('stored-elsewhere')
  @Idempotent()
  @UseInterceptors(FileInterceptor('file', { storage: storage({ etag: '1' }) }))
  storedElsewhere(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('path-of-no-file')
  @Idempotent()
  @UseInterceptors(FileInterceptor('file', { storage: storage({ path: 'https://files/1' }) }))
  pathOfNoFile(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('by-a-function')
  @Idempotent({
    fingerprint: (_: unknown, context: ExecutionContext) =>
      context.switchToHttp().getRequest<{ file: { etag: string } }>().file.etag,
  })
  @UseInterceptors(FileInterceptor('file', { storage: storage({ etag: '1' }) }))
  byAFunction(@InScenario() scenario: Scenario) {
    return scenario.response();
  }
}

@Controller()
class FastifyFormsController {
  @Post('form')
  @Idempotent()
  form(@InScenario() scenario: Scenario) {
    return scenario.response();
  }
}

@Controller()
class FormsTakenController {
  @Post('form')
  @Idempotent()
  form(@InScenario() scenario: Scenario) {
    return scenario.response();
  }
}

@Controller()
class FormsOfOtherParserController {
  @Post('form')
  @Idempotent()
  form(@InScenario() scenario: Scenario) {
    return scenario.response();
  }
}

@Controller()
class FormsMappedController {
  @Post('form')
  @Idempotent()
  form(@InScenario() scenario: Scenario) {
    return scenario.response();
  }
}

const logged = new LoggedLines();
const apps = new Map<string, TestApp>();

beforeAll(async () => {
  apps.set(
    'express',
    await startApp({
      platform: 'express',
      store: memoryStore(),
      controllers: [ExpressFormsController],
      rawBody: true,
    }),
  );
  const onFastify = async (
    name: string,
    controller: typeof FastifyFormsController,
    options: object,
  ) => {
    const configure = (nest: unknown) =>
      (nest as NestFastifyApplication).register(multipart, options);
    const start = { platform: 'fastify', store: memoryStore(), configure } as const;
    apps.set(name, await startApp({ ...start, controllers: [controller] }));
  };
  await onFastify('fastify, nothing attached', FastifyFormsController, {});
  await onFastify('fastify, files taken', FormsTakenController, {
    attachFieldsToBody: true,
    onFile: async ({ file }: { file: NodeJS.ReadableStream }) => void file.resume(),
  });
  const mapped = await startApp({
    platform: 'fastify',
    store: memoryStore(),
    controllers: [FormsMappedController],
    configure: async (nest) => {
      await (nest as NestFastifyApplication).register(multipart, { attachFieldsToBody: true });
      const fastify = (nest as NestFastifyApplication).getHttpAdapter().getInstance();
      fastify.addHook('preHandler', async (request) => {
        const body = request.body as Record<string, { value: unknown }>;
        request.body = Object.fromEntries(
          Object.entries(body).map(([name, { value }]) => [name, value]),
        );
      });
    },
  });
  apps.set('fastify, body mapped', mapped);
  const otherParser = await startApp({
    platform: 'express',
    store: memoryStore(),
    controllers: [FormsOfOtherParserController],
    // As express-formidable does: no body, and files on disk without their field's name.
    configure: (nest) =>
      nest.use((request: object, _response: unknown, next: () => void) => {
        const file = { path: import.meta.filename, name: 'a.txt', type: 'text/plain' };
        Object.assign(request, { fields: { note: 'a note' }, files: { file } });
        next();
      }),
  });
  apps.set('express, another parser', otherParser);
  Logger.overrideLogger(logged);
});

afterAll(async () => {
  await Promise.all([...apps.values()].map((app) => app.close()));
  Logger.overrideLogger(false);
});

describe('C47 a multipart request whose content cannot be read', () => {
  it.each([
    ['express', '/unparsed', /FileInterceptor\(…\)\) below @Idempotent\(\)/],
    ['express', '/unparsed-by-bytes', /FileInterceptor\(…\)\) below @Idempotent\(\)/],
    ['express', '/stored-elsewhere', /neither in memory nor on disk.* a function as the option/],
    ['express', '/path-of-no-file', /does not exist.* a function as the option/],
    ['express, another parser', '/form', /multer has not parsed.* a function as the option/],
    ['fastify, nothing attached', '/form', /\{ attachFieldsToBody: true \}/],
    ['fastify, files taken', '/form', /"onFile".* a function as the option "fingerprint"/],
    ['fastify, body mapped', '/form', /a hook has taken them.* a function as the option/],
  ])('is rejected on %s%s, and the log names the remedy', async (name, path, remedy) => {
    logged.lines.length = 0;
    const scenario = apps.get(name)!.scenario();
    expectProblem(await scenario.post(path, form(...parts)), 'content-invalid');
    expectProblem(await scenario.post(path, form(...parts)), 'content-invalid');
    expect(scenario.executions).toBe(0);
    expect(logged.own).toEqual([expect.stringMatching(remedy)]);
  });

  it('can be compared by a function that knows its storage', async () => {
    const path = '/by-a-function';
    const scenario = apps.get('express')!.scenario();
    const first = await scenario.post(path, form(...parts));
    expect(first).toMatchObject({ status: 201, json: { execution: 1 } });
    const other = changed(parts, 'file', { value: 'other' });
    expectReplay(await scenario.post(path, form(...other)), first);
    expect(scenario.executions).toBe(1);
  });
});
