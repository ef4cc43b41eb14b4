/* eslint-disable @typescript-eslint/no-empty-function -- of these handlers only the decorators count */
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  All,
  Body,
  Controller,
  Delete,
  Get,
  type INestApplication,
  Module,
  Patch,
  Post,
  Put,
  Version,
  VERSION_NEUTRAL,
  VersioningType,
} from '@nestjs/common';
import { NestFactory, RouterModule } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { ApiExcludeEndpoint, ApiExtension, type OpenAPIObject } from '@nestjs/swagger';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { IdempotencyModule, Idempotent, StoreUnavailableError } from 'nestjs-idempotency';
import { MemoryIdempotencyStore, memoryStore } from 'nestjs-idempotency/memory';
import type { BeginReply } from 'nestjs-idempotency/store';
import SwaggerParser from '@apidevtools/swagger-parser';
import { platforms } from '../../support/http/combinations.js';
import { Public } from '../../support/http/callers.guard.js';
import type { RawResponse } from '../../support/http/wire/raw-response.js';
import { InScenario, Scenario } from '../../support/http/scenario.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';
import { documentOf, headersOf, operationOf } from './support/document.js';

const HOST = 'pay.example.test';

@Controller()
class PlainController {
  @Post('plain')
  @Idempotent()
  protect() {}

  @Post('unprotected')
  unprotected() {}

  @Post('disabled')
  @Idempotent({ enabled: false })
  disabled() {}

  @Post('hidden')
  @Idempotent()
  @ApiExcludeEndpoint()
  hidden() {}

  @Post('extended')
  @ApiExtension('x-audience', 'partners')
  @Idempotent()
  extended() {}

  @All('anything')
  @Idempotent()
  anything() {}

  @Put(['first', 'second'])
  @Idempotent()
  aliases() {}

  @Delete('accounts/:id/cards/:card')
  @Idempotent()
  parameters() {}

  @Patch('files/*')
  @Idempotent()
  wildcard() {}
}

@Controller({ path: ['invoices', 'bills'], version: ['1', '2'] })
@Idempotent()
class VersionedController {
  @Get()
  list() {}

  @Post()
  create() {}

  @Post('later')
  @Version('3')
  later() {}

  @Post('neutral')
  @Version(VERSION_NEUTRAL)
  neutral() {}
}

@Controller({ path: 'hosted', host: HOST })
class HostedController {
  @Post()
  @Idempotent()
  create() {}
}

class CreatingController {
  @Post()
  @Idempotent()
  create() {}
}

@Controller('one')
class OneController extends CreatingController {}

@Controller('other')
@Idempotent({ key: { required: false } })
class OtherController extends CreatingController {}

@Controller('users')
class AdminController {
  @Post()
  @Idempotent()
  create() {}
}

@Module({ controllers: [AdminController] })
class AdminModule {}

@Controller('ping')
class OutsidePrefixController {
  @Post()
  @Idempotent()
  ping() {}
}

@Module({
  imports: [
    IdempotencyModule.forRoot({ store: memoryStore(), caller: { anonymous: 'shared' } }),
    AdminModule,
    RouterModule.register([{ path: 'admin', module: AdminModule }]),
  ],
  controllers: [
    PlainController,
    VersionedController,
    HostedController,
    OneController,
    OtherController,
    OutsidePrefixController,
  ],
})
class AppModule {}

/** Maps every operation of the document, as method and path, to whether it documents the key. */
function operationsOf(document: OpenAPIObject): Map<string, boolean> {
  const operations = new Map<string, boolean>();
  for (const [path, item] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(item)) {
      const documentsKey = headersOf(operation).includes('idempotency-key');
      operations.set(`${method.toUpperCase()} ${path}`, documentsKey);
    }
  }
  return operations;
}

describe.each(platforms)('the operations that are documented as idempotent on %s', (platform) => {
  let app: INestApplication;
  let document: OpenAPIObject;

  beforeAll(async () => {
    const adapter = platform === 'express' ? new ExpressAdapter() : new FastifyAdapter();
    app = await NestFactory.create(AppModule, adapter, { logger: false, abortOnError: false });
    app.setGlobalPrefix('api', { exclude: ['ping'] });
    app.enableVersioning({ type: VersioningType.URI, defaultVersion: VERSION_NEUTRAL });
    document = documentOf(app);
    await app.listen(0, '127.0.0.1');
  });
  afterAll(() => app.close());

  async function respondsKeyMissing(operation: string): Promise<boolean> {
    const [method, template = ''] = operation.split(' ');
    const path = template.replaceAll(/\{\w+\}/g, 'x');
    const { port } = app.getHttpServer().address() as AddressInfo;
    const headers = { host: HOST, connection: 'close' };
    const sent = request({ host: '127.0.0.1', port, method, path, headers }).end();
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    response.resume();
    expect([operation, response.statusCode]).not.toEqual([operation, 404]);
    return (
      response.statusCode === 400 &&
      response.headers['content-type']?.startsWith('application/problem+json') === true
    );
  }

  it('are the protected ones, with any prefix, version, host, alias and module', () => {
    const documented = [...operationsOf(document)].filter(([, documentsKey]) => documentsKey);
    expect(documented.map(([operation]) => operation).sort()).toEqual(
      [
        'POST /api/plain',
        'POST /api/extended',
        'POST /api/anything',
        'PUT /api/anything',
        'DELETE /api/anything',
        'PATCH /api/anything',
        'SEARCH /api/anything',
        'PUT /api/first',
        'PUT /api/second',
        'DELETE /api/accounts/{id}/cards/{card}',
        'PATCH /api/files/{path}',
        'POST /api/v1/invoices',
        'POST /api/v2/invoices',
        'POST /api/v1/bills',
        'POST /api/v2/bills',
        'POST /api/v3/invoices/later',
        'POST /api/v3/bills/later',
        'POST /api/invoices/neutral',
        'POST /api/bills/neutral',
        'POST /api/hosted',
        'POST /api/one',
        'POST /api/other',
        'POST /api/admin/users',
        'POST /ping',
      ].sort(),
    );
  });

  it('are exactly the ones that reject a request without a key', async () => {
    const documented = operationsOf(document);
    // Its key is optional.
    documented.delete('POST /api/other');
    const real = new Map<string, boolean>();
    for (const operation of documented.keys()) {
      real.set(operation, await respondsKeyMissing(operation));
    }
    expect(real).toEqual(documented);
    expect([...real.values()].filter((isProtected) => !isProtected).length).toBeGreaterThan(5);
  });

  it('have the options of their own class when classes share a method', () => {
    const required = (path: string) =>
      (document.paths[path] as any).post.parameters.find(({ in: place }: any) => place === 'header')
        .required;
    expect([required('/api/one'), required('/api/other')]).toEqual([true, false]);
  });

  it('leave their methods unchanged', () => {
    const methods = () =>
      [CreatingController, OneController, PlainController].map(({ prototype }) =>
        Object.getOwnPropertyDescriptors(prototype),
      );
    const before = methods();
    const again = documentOf(app);
    expect(methods()).toEqual(before);
    expect(before[1]).not.toHaveProperty('create');
    expect(again).toEqual(document);
  });

  it('keep their extensions, and have none of those that located them', () => {
    expect((document.paths['/api/extended'] as any).post['x-audience']).toBe('partners');
    expect(JSON.stringify(document)).not.toContain('x-nestjs-idempotency');
  });

  it('exclude what the application excludes', () => {
    expect(document.paths).not.toHaveProperty('/api/hidden');
  });
});

const pages = 'https://errors.example.com';

@Controller('orders')
class OrdersController {
  @Post()
  @Public()
  @Idempotent({ http: { problemTypeBase: pages }, duplicates: { retryAfterMs: 4_000 } })
  async create(@InScenario() scenario: Scenario, @Body() _: unknown) {
    return { order: await scenario.run() };
  }
}

/** Never replies to begin. */
class SilentStore extends MemoryIdempotencyStore {
  override begin(): Promise<BeginReply> {
    return Promise.reject(new StoreUnavailableError('planned'));
  }
}

describe.each(platforms)('the documented responses on %s', (platform) => {
  let app: TestApp;
  let deaf: TestApp;
  let document: OpenAPIObject;

  beforeAll(async () => {
    const start = { platform, controllers: [OrdersController] };
    app = await startApp({ ...start, store: memoryStore() });
    deaf = await startApp({ ...start, store: new SilentStore() });
    document = documentOf(app.nest);
  });
  afterAll(() => Promise.all([app.close(), deaf.close()]));

  /** The response equals one of the document exactly. */
  function expectDocumented(response: RawResponse, code: string): void {
    const documented = operationOf(document, '/orders').responses[response.status];
    const { schema, examples } = documented.content['application/problem+json'];
    expect(response.header('content-type')).toContain('application/problem+json');
    expect(response.json).toEqual(examples[code].value);
    const { required, properties } = document.components!.schemas![
      schema.$ref.split('/').pop()
    ] as any;
    expect(Object.keys(response.json).sort()).toEqual([...required].sort());
    expect(Object.keys(properties).sort()).toEqual([...required].sort());
    for (const [member, value] of Object.entries(response.json)) {
      const { type } = properties[member];
      expect([member, typeof value]).toEqual([member, type === 'integer' ? 'number' : type]);
    }
    const { retryable } = response.json;
    expect(response.header('retry-after')).toBe(
      retryable ? String(documented.headers['Retry-After'].example) : undefined,
    );
  }

  it.each([
    ['idempotency_key_missing', { key: null }],
    ['idempotency_key_invalid', { key: ['a', 'b'] }],
    ['idempotency_key_invalid', { key: 'k'.repeat(256) }],
    ['idempotency_caller_unknown', { as: null }],
    ['idempotency_content_invalid', { body: '{"amount":1e400}' }],
  ])('match a 400 with %s', async (code, sending) => {
    expectDocumented(await app.scenario().post('/orders', sending), code);
  });

  it('match 409, 422 and a replay', async () => {
    const scenario = app.scenario();
    scenario.gate.close();
    const first = scenario.start('POST', '/orders', { json: { amount: 1 } });
    await scenario.started.reached(1);
    const duplicate = await scenario.post('/orders', { json: { amount: 1 } });
    expectDocumented(duplicate, 'idempotency_in_progress');
    const other = await scenario.post('/orders', { json: { amount: 2 } });
    expectDocumented(other, 'idempotency_key_reused');
    scenario.gate.open();

    const marker = operationOf(document, '/orders').responses[201].headers['Idempotent-Replayed'];
    expect((await first.response).header('idempotent-replayed')).toBeUndefined();
    const replay = await scenario.post('/orders', { json: { amount: 1 } });
    expect(replay.status).toBe(201);
    expect(marker.schema.enum).toEqual([replay.header('idempotent-replayed')]);
  });

  it('match a 503', async () => {
    expectDocumented(await deaf.scenario().post('/orders'), 'idempotency_store_unavailable');
  });

  it('have the length limits that the route applies', async () => {
    const { minLength, maxLength }: { minLength: number; maxLength: number } = operationOf(
      document,
      '/orders',
    ).parameters[0].schema;
    const lengths = [minLength - 1, minLength, maxLength, maxLength + 1];
    const statuses: number[] = [];
    for (const length of lengths) {
      const response = await app.scenario().post('/orders', { key: 'k'.repeat(length) });
      statuses.push(response.status);
    }
    expect(statuses).toEqual([400, 201, 201, 400]);
  });
});

// The app reads its settings when it is imported.
process.env.STORE = 'memory';
const { createApp } = await import('../../../sample-app/src/create-app.js');

describe.each(['express', 'fastify'] as const)(
  'the documentation of the sample app on %s',
  (on) => {
    let app: INestApplication;
    let url: string;
    let document: any;

    beforeAll(async () => {
      app = await createApp(on);
      await app.listen(0, '127.0.0.1');
      url = await app.getUrl();
      document = await (await fetch(`${url}/docs-json`)).json();
    });
    afterAll(() => app.close());

    it('is a page at /docs, which loads its scripts from the app itself', async () => {
      const page = await fetch(`${url}/docs`);
      expect(page.headers.get('content-type')).toContain('text/html');
      const html = await page.text();
      const scripts = [...html.matchAll(/<script src='?"?([^'" >]+)/g)].map(
        ([, source]) => source!,
      );
      expect(scripts.length).toBeGreaterThan(1);
      for (const source of scripts) {
        const script = await fetch(new URL(source, `${url}/docs`));
        const { byteLength } = await script.arrayBuffer();
        expect([source, script.status, byteLength > 0]).toEqual([source, 200, true]);
      }
    });

    it('is valid according to a validator', async () => {
      await expect(SwaggerParser.validate(structuredClone(document))).resolves.toBeDefined();
    });

    it.each(['/payments', '/payments/{id}/refunds'])(
      'describes POST %s completely',
      async (path) => {
        const { post } = document.paths[path];
        const key = post.parameters.find(({ in: place }: any) => place === 'header');
        expect(key).toMatchObject({
          name: 'Idempotency-Key',
          required: true,
          description: expect.stringContaining('For at least 24 hours'),
          schema: { type: 'string', maxLength: 255 },
        });
        expect(Object.keys(post.responses)).toEqual(['201', '400', '409', '422', '503']);
        expect(post.responses[201].headers).toHaveProperty('Idempotent-Replayed');
        for (const status of [400, 409, 422, 503]) {
          const { schema } = post.responses[status].content['application/problem+json'];
          expect(schema).toEqual({ $ref: '#/components/schemas/IdempotencyProblemDocument' });
        }
      },
    );

    it('does not mention keys for reading a payment', () => {
      expect(JSON.stringify(document.paths['/payments/{id}'].get)).not.toMatch(/idempoten/i);
    });
  },
);
