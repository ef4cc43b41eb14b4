import multipart from '@fastify/multipart';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import {
  Controller,
  type ExecutionContext,
  HostParam,
  type INestApplication,
  Logger,
  UseInterceptors,
} from '@nestjs/common';
import { FileInterceptor, type NestExpressApplication } from '@nestjs/platform-express';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import { json } from 'express';
import { type IdempotencyOptions, Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { platforms } from '../../../support/http/combinations.js';
import { expectProblem, expectReplay } from '../../../support/http/expectations.js';
import { after, controllerOf, respond } from '../../../support/http/routes-of.js';
import type { Scenario, Sending } from '../../../support/http/scenario.js';
import { startApp, type StartAppOptions, type TestApp } from '../../../support/http/start-app.js';
import { changed, form, type Part } from '../../../support/http/wire/form.js';
import { LoggedLines } from '../../../support/nest/logged-lines.js';
import { useServer } from '../../../support/servers/use-server.js';
import { slowStore } from '../../../support/stores/slow-store.js';

describe('incomparable bodies', () => {
  let operations = 0;

  /** A new controller for each test, as each message is logged once per operation. */
  const bytesController = () =>
    controllerOf('BytesController', {
      canonical: [Idempotent(), respond],
      bytes: [
        Idempotent({ fingerprint: 'bytes', operation: `bytes ${(operations += 1)}` }),
        respond,
      ],
    });

  const logged = new LoggedLines();

  beforeEach(() => {
    logged.lines.length = 0;
  });

  afterAll(() => {
    Logger.overrideLogger(false);
  });

  async function withApp(
    start: Partial<StartAppOptions> & Pick<StartAppOptions, 'platform'>,
    test: (scenario: Scenario) => Promise<void>,
  ): Promise<void> {
    const app = await startApp({
      store: memoryStore(),
      controllers: [bytesController()],
      ...start,
    });
    Logger.overrideLogger(logged);
    try {
      await test(app.scenario());
    } finally {
      await app.close();
    }
  }

  it('C46 a body whose media type has no parser is rejected on express', () =>
    withApp({ platform: 'express', rawBody: true }, async (scenario) => {
      const xml = { type: 'application/xml', body: '<a/>' };
      const isLogged = expect.stringMatching(/Register a parser for its media type/);
      for (const [index, path] of ['/canonical', '/bytes'].entries()) {
        expectProblem(await scenario.post(path, xml), 'content-invalid');
        expect(logged.own).toEqual([isLogged, isLogged].slice(0, index + 1));
      }
      expect(scenario.executions).toBe(0);
    }));

  it("C46 a text whose bytes Fastify has not kept is rejected with fingerprint: 'bytes'", () =>
    withApp({ platform: 'fastify', rawBody: true }, async (scenario) => {
      const text = { type: 'text/plain', body: 'one' };
      expectProblem(await scenario.post('/bytes', text), 'content-invalid');
      expect(logged.own).toEqual([expect.stringMatching(/has converted the request's bytes/)]);
      expect(await scenario.post('/canonical', text)).toMatchObject({ status: 201 });
    }));

  describe.each(platforms)('C32 a JSON parser on %s', (platform) => {
    function parseWith(
      keep: (request: object, bytes: Buffer) => void,
    ): Pick<StartAppOptions, 'configure'> {
      return {
        configure: (nest) =>
          platform === 'express'
            ? nest.use(json({ verify: (request, _, bytes) => keep(request, bytes) }))
            : (nest as NestFastifyApplication).useBodyParser(
                'application/json',
                {},
                (request, body, done) => {
                  keep(request, body);
                  done(null, JSON.parse(String(body)));
                },
              ),
      };
    }

    it("that keeps raw bytes is sufficient for fingerprint: 'bytes'", () => {
      const keeping = parseWith((request, rawBody) => Object.assign(request, { rawBody }));
      return withApp({ platform, ...keeping }, async (scenario) => {
        expect(await scenario.post('/bytes', { body: '{"a":1}' })).toMatchObject({ status: 201 });
        expect(await scenario.post('/bytes', { body: '{"a":1}' })).toMatchObject({
          replayed: true,
        });
        expectProblem(await scenario.post('/bytes', { body: '{"a": 1}' }), 'key-reused');
      });
    });

    const limited: StartAppOptions['configure'] = (nest) =>
      platform === 'express'
        ? (nest as NestExpressApplication).useBodyParser('json', { limit: '10mb' })
        : (nest as NestFastifyApplication).useBodyParser('application/json', { bodyLimit: 1e7 });

    it.each([
      ['of Nest', {}],
      ['of Nest with its own limit', { configure: limited }],
      ['of the application', parseWith(() => undefined)],
    ])(
      '%s that keeps no raw bytes fails the first request, and the log names the remedy',
      (_, parser) =>
        withApp({ platform, ...parser }, async (scenario) => {
          expectProblem(await scenario.post('/bytes', { body: '{"a":1}' }), 'misconfigured');
          expect(scenario.executions).toBe(0);
          expect(logged.own).toEqual([
            expect.stringMatching(
              /^error: bytes \d+: The option "fingerprint" is 'bytes'.* \{ rawBody: true \}/,
            ),
          ]);
        }),
    );
  });

  const ComparingController = controllerOf('ComparingController', {
    'by-value': [Idempotent(), respond],
    'without-a-member': [Idempotent({ fingerprint: { exclude: ['note'] } }), respond],
    'by-a-member': [Idempotent({ fingerprint: { include: ['items.sku'] } }), respond],
  });

  /** Valid JSON, within the parsers' limits, and too deep for a recursive function. */
  const DEPTH = 40_000;
  const deep = '['.repeat(DEPTH) + ']'.repeat(DEPTH);

  describe.each(platforms)('C35 content that is nested too deeply on %s', (platform) => {
    const app = useServer(() =>
      startApp({ platform, store: slowStore(), controllers: [ComparingController] }),
    );

    it.each(['/by-value', '/without-a-member', '/by-a-member'])(
      'is rejected where it is compared %s',
      async (path) => {
        const scenario = app.scenario();
        expectProblem(await scenario.post(path, { body: deep }), 'content-invalid');
        expectProblem(await scenario.post(path, { body: `{"items":${deep}}` }), 'content-invalid');
        expect(scenario.executions).toBe(0);
        expect(await scenario.post(path, { json: { items: [] } })).toMatchObject({ status: 201 });
      },
    );
  });
});

const ContentController = controllerOf('ContentController', {
  included: [Idempotent({ fingerprint: { include: ['amount', 'currency'] } }), respond],
  excluded: [Idempotent({ fingerprint: { exclude: ['sentAt'] } }), respond],
  bytes: [Idempotent({ fingerprint: 'bytes' }), respond],
});

/** Responds with the tenant that it served. */
const ofTenant = (options?: IdempotencyOptions) =>
  [
    Idempotent(options),
    (target: object, name: string | symbol) => HostParam('tenant')(target, name, 1),
    after((execution, tenant: string) => ({ execution, tenant })),
  ] as const;

const TenantsController = controllerOf(
  'TenantsController',
  {
    '/': ofTenant(),
    bytes: ofTenant({ fingerprint: 'bytes' }),
    included: ofTenant({ fingerprint: { include: ['amount'], headers: ['If-Match'] } }),
    excluded: ofTenant({ fingerprint: { exclude: ['sentAt'] } }),
    uncompared: ofTenant({ fingerprint: false }),
    own: ofTenant({ fingerprint: ({ body }) => body }),
  },
  Controller({ path: 'of-tenants', host: [':tenant.example.com', ':tenant.:region.example.com'] }),
);

/** Its hosts have no parameters. */
const HostsController = controllerOf(
  'HostsController',
  { '/': [Idempotent(), respond] },
  Controller({ path: 'of-hosts', host: ['a.example.org', 'b.example.org'] }),
);

describe.each(platforms)('C87b the parameters of the host on %s', (platform) => {
  const app = useServer(() =>
    startApp({
      platform,
      store: memoryStore(),
      controllers: [TenantsController, HostsController],
      rawBody: true,
    }),
  );

  const sentTo = (host: string): Sending => ({ json: { amount: 1 }, headers: [['Host', host]] });

  it.each(['', '/bytes', '/included', '/excluded'])(
    'are compared: /of-tenants%s',
    async (route) => {
      const scenario = app.scenario();
      const path = `/of-tenants${route}`;
      const first = await scenario.post(path, sentTo('a.example.com'));
      expect(first.json).toEqual({ execution: 1, tenant: 'a' });
      for (const host of ['b.example.com', 'a.eu.example.com']) {
        expectProblem(await scenario.post(path, sentTo(host)), 'key-reused');
      }
      expectReplay(await scenario.post(path, sentTo('a.example.com:8080')), first);
      expect(scenario.executions).toBe(1);
    },
  );

  it.each(['/uncompared', '/own'])(
    'are ignored where the content is not compared or a function selects it: %s',
    async (route) => {
      const scenario = app.scenario();
      const first = await scenario.post(`/of-tenants${route}`, sentTo('a.example.com'));
      expect(first.status).toBe(201);
      expectReplay(await scenario.post(`/of-tenants${route}`, sentTo('b.example.com')), first);
    },
  );

  it('are compared, and the rest of the host is not', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/of-hosts', sentTo('a.example.org'));
    expect(first.status).toBe(201);
    expectReplay(await scenario.post('/of-hosts', sentTo('b.example.org')), first);
    expect(scenario.executions).toBe(1);
  });
});

/** Cases for which the contract suite has no routes. It covers JSON, queries and forms. */
describe.each(platforms)('the same request on %s', (platform) => {
  const app = useServer(() =>
    startApp({
      platform,
      store: memoryStore(),
      controllers: [ContentController],
      rawBody: true,
    }),
  );

  /** Expects that `first` repeated is the same request and `other` is not. */
  async function expectCompared(path: string, first: Sending, other: Sending) {
    const scenario = app.scenario();
    const response = await scenario.post(path, first);
    expect(response.status).toBe(201);
    expectProblem(await scenario.post(path, other), 'key-reused');
    expectReplay(await scenario.post(path, first), response);
    expect(scenario.executions).toBe(1);
  }

  const octets = (...values: number[]): Sending => ({
    type: 'application/octet-stream',
    body: Buffer.from(values),
  });
  const text = (body: string): Sending => ({ type: 'text/plain', body });

  it.each(['/included', '/excluded'])(
    'C46 binary and text bodies are compared as a whole where members are selected: %s',
    async (path) => {
      await expectCompared(path, octets(1, 2), octets(1, 3));
      await expectCompared(path, text('one'), text('two'));
    },
  );

  it('C37 the absence of a selected member is compared, that of an excluded one is not', async () => {
    const json = { amount: 1, currency: 'EUR' };
    await expectCompared('/included', { json }, { json: { amount: 1 } });
    const scenario = app.scenario();
    const first = await scenario.post('/excluded', { json: { amount: 1, sentAt: 1 } });
    expectReplay(await scenario.post('/excluded', { json: { amount: 1 } }), first);
  });

  it("C32 with fingerprint: 'bytes' a duplicate member is compared", () =>
    expectCompared('/bytes', { body: '{"a":1}' }, { body: '{"a":0,"a":1}' }));

  it("C46 with fingerprint: 'bytes' the bytes of forms and binary bodies are compared", async () => {
    const type = 'application/x-www-form-urlencoded';
    await expectCompared('/bytes', { type, body: 'a=1&b=2' }, { type, body: 'b=2&a=1' });
    await expectCompared('/bytes', octets(1, 2), octets(1, 3));
  });

  it("C48 with fingerprint: 'bytes' a retry without a body is replayed, and {} is another body", () =>
    expectCompared('/bytes', {}, { body: '{}' }));
});

describe('C47 a multipart request whose content cannot be read', () => {
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

  const ExpressFormsController = controllerOf('ExpressFormsController', {
    unparsed: [Idempotent(), respond],
    'unparsed-by-bytes': [Idempotent({ fingerprint: 'bytes' }), respond],
    'stored-elsewhere': [
      Idempotent(),
      UseInterceptors(FileInterceptor('file', { storage: storage({ etag: '1' }) })),
      respond,
    ],
    'path-of-no-file': [
      Idempotent(),
      UseInterceptors(FileInterceptor('file', { storage: storage({ path: 'https://files/1' }) })),
      respond,
    ],
    'by-a-function': [
      Idempotent({
        fingerprint: (_: unknown, context: ExecutionContext) =>
          context.switchToHttp().getRequest<{ file: { etag: string } }>().file.etag,
      }),
      UseInterceptors(FileInterceptor('file', { storage: storage({ etag: '1' }) })),
      respond,
    ],
  });

  const logged = new LoggedLines();
  const apps = new Map<string, TestApp>();

  beforeAll(async () => {
    const start = async (name: string, more: Partial<StartAppOptions>) => {
      const platform = name.startsWith('express') ? 'express' : 'fastify';
      // Each message is logged once per operation, which the controller names.
      const controllers = [controllerOf(name, { form: [Idempotent(), respond] })];
      apps.set(name, await startApp({ platform, store: memoryStore(), controllers, ...more }));
    };
    const register = (nest: INestApplication, options: object) =>
      (nest as NestFastifyApplication).register(multipart, options);
    await start('express', { controllers: [ExpressFormsController], rawBody: true });
    await start('fastify, nothing attached', { configure: (nest) => register(nest, {}) });
    await start('fastify, files taken', {
      configure: (nest) =>
        register(nest, {
          attachFieldsToBody: true,
          onFile: async ({ file }: { file: NodeJS.ReadableStream }) => void file.resume(),
        }),
    });
    await start('fastify, body mapped', {
      configure: async (nest) => {
        await register(nest, { attachFieldsToBody: true });
        const fastify = (nest as NestFastifyApplication).getHttpAdapter().getInstance();
        fastify.addHook('preHandler', async (request) => {
          const body = request.body as Record<string, { value: unknown }>;
          request.body = Object.fromEntries(
            Object.entries(body).map(([name, { value }]) => [name, value]),
          );
        });
      },
    });
    await start('express, another parser', {
      // As express-formidable does: no body, and files on disk without their field's name.
      configure: (nest) =>
        nest.use((request: object, _response: unknown, next: () => void) => {
          const file = { path: import.meta.filename, name: 'a.txt', type: 'text/plain' };
          Object.assign(request, { fields: { note: 'a note' }, files: { file } });
          next();
        }),
    });
    Logger.overrideLogger(logged);
  });

  afterAll(async () => {
    await Promise.all([...apps.values()].map((app) => app.close()));
    Logger.overrideLogger(false);
  });

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
