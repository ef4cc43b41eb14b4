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
  Headers,
  HttpCode,
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
import {
  ApiBadRequestResponse,
  ApiConflictResponse,
  ApiCreatedResponse,
  ApiExcludeEndpoint,
  ApiExtension,
  ApiHeader,
  ApiOperation,
  ApiProperty,
  ApiResponse,
  ApiWebhook,
  DocumentBuilder,
  getSchemaPath,
  type OpenAPIObject,
  SwaggerModule,
} from '@nestjs/swagger';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { IdempotencyModule, Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { documentIdempotency } from 'nestjs-idempotency/swagger';
import SwaggerParser from '@apidevtools/swagger-parser';
import { platforms } from '../../support/http/combinations.js';
import { Public } from '../../support/http/callers.guard.js';
import type { RawResponse } from '../../support/http/wire/raw-response.js';
import { InScenario, Scenario } from '../../support/http/scenario.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';
import { FaultyStore, unavailable } from '../../support/stores/faulty-store.js';
import { useServer } from '../../support/servers/use-server.js';
import { createApp, documentOf, headersOf, operationOf } from './support/document.js';

const pages = 'https://errors.example.com';

@Controller()
class OptionsController {
  @Post('default')
  @Idempotent()
  byDefault() {}

  @Post('named')
  @Idempotent({
    key: 'X-Request-Key',
    http: { replayHeader: 'X-Replayed', problemTypeBase: pages },
  })
  named() {}

  @Post('optional')
  @Idempotent({ key: { required: false } })
  optional() {}

  @Post('strict')
  @Idempotent({ key: { syntax: 'strict', maxLength: 40 } })
  strict() {}

  @Post('uuid')
  @Idempotent({ key: { syntax: 'uuid' } })
  uuid() {}

  @Post('predicate')
  @Idempotent({ key: { syntax: (key) => key.startsWith('order-'), maxLength: 64 } })
  predicate() {}

  @Post('function')
  @Idempotent({ key: () => 'from-the-body', outcome: { retention: 7 * 86_400_000 } })
  fromFunction(@Body() _: object) {}

  @Post('waiting')
  @Idempotent({ duplicates: { mode: 'wait', timeout: 90_000, retryAfter: 2_500 } })
  waiting() {}

  @Post('fact')
  @Idempotent({ outcome: { storeBody: false } })
  fact() {}

  @Post('never-twice')
  @Idempotent({ lease: { onTakeover: 'reject' }, outcome: () => true })
  neverTwice() {}

  @Post('open')
  @Idempotent({ storeErrors: { whenUnavailable: 'execute' } })
  open() {}

  @Post('open-but-saved')
  @Idempotent({ storeErrors: { whenUnavailable: 'execute', whenNotSaved: 'error' } })
  openButSaved() {}

  @Post('uncompared')
  @Idempotent({ fingerprint: false })
  uncompared() {}

  @Post('uncompared-principal')
  @Idempotent({ fingerprint: false, key: { uniqueFor: 'principal' } })
  uncomparedPrincipal() {}

  @Post('principal')
  @Idempotent({ key: { uniqueFor: 'principal' } })
  principal() {}

  @Post('shared')
  @Idempotent({ caller: { anonymous: 'shared' } })
  shared() {}

  @Post('ignoring')
  @Idempotent({ caller: { anonymous: 'ignore' } })
  ignoring() {}

  @Post('by-outcome')
  @Idempotent({ outcome: { retention: ({ status }) => (status === 201 ? 1_000 : 1) } })
  byOutcome() {}

  @Post('no-content')
  @HttpCode(204)
  @Idempotent()
  noContent() {}
}

@Controller()
class BareController {
  @Post('bare')
  bare() {}

  @Get('bare')
  list() {}
}

@Controller()
class HookController {
  @Post('paid')
  @ApiWebhook('paid')
  @Idempotent()
  paid() {}
}

describe('the document of an idempotent route', () => {
  let app: INestApplication;
  let document: OpenAPIObject;

  beforeAll(async () => {
    app = await createApp([OptionsController, BareController]);
    document = documentOf(app);
  });

  const post = (path: string) => operationOf(document, `/${path}`);
  const keyOf = (path: string) =>
    post(path).parameters.find((parameter: any) => parameter.in === 'header');
  const responsesOf = (path: string) => Object.keys(post(path).responses);
  const codesOf = (path: string, status: number) =>
    Object.keys(post(path).responses[status].content['application/problem+json'].examples);

  it.each(['3.0.0', '3.1.0'])('is valid OpenAPI %s according to a validator', async (version) => {
    const config = new DocumentBuilder().setOpenAPIVersion(version);
    const checked = structuredClone(documentOf(app, config));
    const validated = await SwaggerParser.validate(checked as any);
    expect(validated).toHaveProperty('openapi', version);
  });

  it('has the header, with format, limit and retention (C82b)', () => {
    expect(keyOf('default')).toEqual({
      name: 'Idempotency-Key',
      in: 'header',
      required: true,
      description: expect.stringMatching(
        /Up to 255 printable ASCII characters.*rejected with 400\..*For at least 24 hours after the first response.*marked `Idempotent-Replayed: true`.*5xx.*gets 409.*422/s,
      ),
      schema: {
        type: 'string',
        minLength: 1,
        maxLength: 255,
        example: expect.stringMatching(/^[0-9a-f-]{36}$/),
      },
    });
  });

  it('has the 400, 409, 422 and 503 responses, and the replay header on success', () => {
    expect(responsesOf('default')).toEqual(['201', '400', '409', '422', '503']);
    expect(codesOf('default', 400)).toEqual([
      'idempotency_key_missing',
      'idempotency_key_invalid',
      'idempotency_caller_unknown',
      'idempotency_content_invalid',
    ]);
    expect(codesOf('default', 409)).toEqual([
      'idempotency_in_progress',
      'idempotency_response_not_kept',
    ]);
    expect(codesOf('default', 422)).toEqual(['idempotency_key_reused']);
    expect(codesOf('default', 503)).toEqual([
      'idempotency_store_unavailable',
      'idempotency_shutting_down',
    ]);
    expect(post('default').responses[201].headers).toEqual({
      'Idempotent-Replayed': {
        description: expect.stringContaining('replay'),
        schema: { type: 'string', enum: ['true'] },
      },
    });
    expect(post('no-content').responses[204].headers).toHaveProperty('Idempotent-Replayed');
  });

  it('has Retry-After on 409 and 503 only, with the value that the route sends', () => {
    const retryAfter = (path: string) =>
      Object.entries<any>(post(path).responses).map(([status, { headers }]) => [
        status,
        headers?.['Retry-After']?.example,
      ]);
    expect(retryAfter('default')).toEqual([
      ['201', undefined],
      ['400', undefined],
      ['409', 1],
      ['422', undefined],
      ['503', 1],
    ]);
    expect(Object.fromEntries(retryAfter('waiting'))).toMatchObject({ 409: 3, 503: 3 });
  });

  it('uses the names that the route configures', () => {
    expect(headersOf(post('named'))).toEqual(['x-request-key']);
    expect(keyOf('named')).toMatchObject({
      name: 'X-Request-Key',
      description: expect.stringContaining('marked `X-Replayed: true`'),
    });
    expect(Object.keys(post('named').responses[201].headers)).toEqual(['X-Replayed']);
    const { examples } = post('named').responses[422].content['application/problem+json'];
    expect(examples.idempotency_key_reused.value.type).toBe(`${pages}/key-reused`);
  });

  it('has an optional header, and 400 only for an invalid one, with required: false', () => {
    expect(keyOf('optional')).toMatchObject({
      required: false,
      description: expect.stringContaining('A request without it is not protected'),
    });
    expect(codesOf('optional', 400)).not.toContain('idempotency_key_missing');
    expect(codesOf('optional', 400)).toContain('idempotency_key_invalid');
  });

  it('has the format of each key syntax', () => {
    const { pattern } = keyOf('strict').schema;
    const accepts = (value: string) => new RegExp(pattern).test(value);
    expect(keyOf('strict').description).toMatch(/structured-field String.* up to 40 .*in double/);
    expect(accepts(keyOf('strict').schema.example)).toBe(true);
    expect(accepts(`"${'k'.repeat(40)}"`)).toBe(true);
    expect(accepts(`"${'\\"'.repeat(40)}"`)).toBe(true);
    expect(accepts(`"${'k'.repeat(41)}"`)).toBe(false);
    expect(accepts('""')).toBe(false);
    expect(accepts('k')).toBe(false);

    expect(keyOf('uuid').schema).toMatchObject({ type: 'string', format: 'uuid', maxLength: 36 });
    expect(keyOf('uuid').description).toContain('A UUID');

    expect(keyOf('predicate').schema).toEqual({ type: 'string', minLength: 1, maxLength: 64 });
    expect(keyOf('predicate').description).toContain('another form');
  });

  it('describes the route instead of a header when a function returns the key', () => {
    expect(headersOf(post('function'))).toEqual([]);
    expect(post('function').description).toMatch(/^For at least 7 days after the first response/);
    expect(responsesOf('function')).toEqual(['201', '400', '409', '422', '503']);
  });

  it('says how long a duplicate waits', () => {
    expect(keyOf('waiting').description).toContain(
      'waits for its response, up to 90 seconds, and then gets 409',
    );
    expect(keyOf('default').description).not.toContain('waits');
  });

  it('says what is kept, and for how long, when options change it', () => {
    expect(keyOf('fact').description).toContain('a retry gets 409');
    expect(post('fact').responses[201]).not.toHaveProperty('headers');
    expect(keyOf('by-outcome').description).toContain('a time that depends on the first response');
    expect(keyOf('never-twice').description).not.toContain('5xx');
  });

  it('has exactly the responses that its options allow', () => {
    expect(codesOf('never-twice', 409)).toContain('idempotency_outcome_unknown');
    expect(codesOf('open', 503)).toEqual(['idempotency_shutting_down']);
    expect(codesOf('open-but-saved', 503)).toContain('idempotency_store_unavailable');
    expect(responsesOf('uncompared')).toEqual(['201', '400', '409', '503']);
    expect(codesOf('uncompared', 400)).not.toContain('idempotency_content_invalid');
    expect(keyOf('uncompared').description).not.toContain('422');
    expect(responsesOf('uncompared-principal')).toContain('422');
    expect(keyOf('principal').description).toContain('even to another operation');
    expect(codesOf('shared', 400)).not.toContain('idempotency_caller_unknown');
    expect(codesOf('ignoring', 400)).not.toContain('idempotency_caller_unknown');
    expect(keyOf('ignoring').description).toContain('unauthenticated callers are not protected');
  });

  it('has the header for unprotected requests when a route may run without the store', () => {
    expect(post('open').responses[201].headers).toHaveProperty('Idempotency-Status');
    expect(post('default').responses[201].headers).not.toHaveProperty('Idempotency-Status');
  });

  it('uses the defaults of the module, and has a 429 when it limits the attempts of a caller', async () => {
    const other = await createApp([OptionsController], {
      outcome: { retention: 3_600_000 },
      key: { from: 'X-Key', maxLength: 36 },
      limits: { maxAttemptsPerCaller: 10 },
    });
    const { parameters, responses } = operationOf(documentOf(other), '/default');
    expect(parameters[0]).toMatchObject({
      name: 'X-Key',
      description: expect.stringContaining('For at least 1 hour after'),
      schema: { maxLength: 36 },
    });
    const { examples } = responses[429].content['application/problem+json'];
    expect(Object.keys(examples)).toEqual(['idempotency_too_many_attempts']);
    expect(responsesOf('default')).not.toContain('429');
  });

  it('describes webhooks in the same way', async () => {
    const config = new DocumentBuilder().setOpenAPIVersion('3.1.0');
    const { webhooks, paths } = documentOf(await createApp([HookController]), config);
    expect(headersOf(webhooks!.paid!.post)).toEqual(['idempotency-key']);
    expect(JSON.stringify({ webhooks, paths })).not.toContain('x-nestjs-idempotency');
  });

  it('does not change routes that are not idempotent', async () => {
    expect(post('bare')).toMatchObject({ parameters: [], responses: { 201: { description: '' } } });
    expect(responsesOf('bare')).toEqual(['201']);
    const bare = documentOf(await createApp([BareController]));
    expect(bare.components?.schemas).toEqual({});
  });
});

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

  it('are exactly the ones that reject a request without a key, with any prefix, version, host, alias and module', async () => {
    const documented = operationsOf(document);
    // Its key is optional.
    expect(documented.get('POST /api/other')).toBe(true);
    documented.delete('POST /api/other');
    const real = new Map<string, boolean>();
    for (const operation of documented.keys()) {
      real.set(operation, await respondsKeyMissing(operation));
    }
    expect(real).toEqual(documented);
    const isProtected = [...real.values()];
    expect(isProtected.filter(Boolean)).toHaveLength(23);
    expect(isProtected.filter((is) => !is).length).toBeGreaterThan(5);
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

  it('keep what the application says of them, and have no mark of their routes', () => {
    expect((document.paths['/api/extended'] as any).post['x-audience']).toBe('partners');
    expect(document.paths).not.toHaveProperty('/api/hidden');
    expect(JSON.stringify(document)).not.toContain('x-nestjs-idempotency');
  });
});

@Controller('orders')
class OrdersController {
  @Post()
  @Public()
  @Idempotent({ http: { problemTypeBase: pages }, duplicates: { retryAfter: 4_000 } })
  async create(@InScenario() scenario: Scenario, @Body() _: unknown) {
    return { order: await scenario.run() };
  }
}

describe('the documented responses', () => {
  const store = new FaultyStore(memoryStore());
  const app: TestApp = useServer(() =>
    startApp({ platform: 'express', controllers: [OrdersController], store }),
  );
  let document: OpenAPIObject;
  beforeAll(() => {
    document = documentOf(app.nest);
  });

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
    store.next('begin', unavailable);
    expectDocumented(await app.scenario().post('/orders'), 'idempotency_store_unavailable');
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
const { createApp: createSampleApp } = await import('../../../sample-app/src/create-app.js');

describe.each(['express', 'fastify'] as const)(
  'the documentation of the sample app on %s',
  (on) => {
    let app: INestApplication;
    let url: string;
    let document: any;

    beforeAll(async () => {
      app = await createSampleApp(on);
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

    it('is valid, and has the key of both routes that create something', async () => {
      await expect(SwaggerParser.validate(structuredClone(document))).resolves.toBeDefined();
      const keyed = ['/payments', '/payments/{id}/refunds'];
      for (const path of keyed) {
        expect(headersOf(document.paths[path].post)).toEqual(['idempotency-key']);
      }
    });
  },
);

class ValidationError {
  @ApiProperty()
  message!: string;
}

const ownRetryAfter = { description: 'An HTTP date.', schema: { type: 'string' } };
const ownMarker = { description: 'Seen before.', schema: { type: 'boolean' } };

@Controller('own')
@ApiResponse({ status: 202, description: 'All of them share this.' })
class OwnController {
  @Post('validation')
  @ApiBadRequestResponse({ description: 'Not valid.', type: ValidationError })
  @Idempotent()
  validation() {}

  @Post('problem')
  @Idempotent()
  @ApiConflictResponse({
    description: 'Sold out, or in progress.',
    headers: { 'retry-after': ownRetryAfter },
    content: { 'application/problem+json': { schema: { type: 'string' } } },
  })
  problem() {}

  @Post('header')
  @Idempotent()
  @ApiHeader({
    name: 'idempotency-key',
    description: 'The number of the order.',
    required: false,
    schema: { type: 'string', maxLength: 12 },
  })
  header() {}

  @Post('open-header')
  @Idempotent()
  @ApiHeader({ name: 'Idempotency-Key', required: true })
  openHeader() {}

  @Post('content-header')
  @Idempotent()
  @ApiHeader({ name: 'Idempotency-Key', content: { 'text/plain': { schema: { type: 'string' } } } })
  contentHeader() {}

  @Post('referring-header')
  @Idempotent()
  @ApiHeader({ name: 'Idempotency-Key', schema: { $ref: getSchemaPath('Key') } })
  referringHeader() {}

  @Post('injected')
  @Idempotent()
  injected(@Headers('idempotency-key') _: string, @Headers('x-trace') __: string) {}

  @Post('marker')
  @Idempotent()
  @ApiCreatedResponse({ description: 'Made.', headers: { 'idempotent-replayed': ownMarker } })
  marker() {}

  @Post('described')
  @Idempotent({ key: () => 'k' })
  @ApiOperation({ description: 'Makes one.' })
  described() {}

  @Post('ranges')
  @Idempotent()
  @ApiResponse({ status: '2XX', description: 'Made.' })
  @ApiResponse({ status: 'default', description: 'Anything else.' })
  ranges() {}

  @Get()
  @Idempotent()
  list() {}
}

/** As the compiler plugin of @nestjs/swagger emits it. */
@Controller('plugin')
class PluginController {
  @Post()
  @Idempotent()
  create() {}

  static _OPENAPI_METADATA_FACTORY() {
    return { create: { type: ValidationError } };
  }
}

describe('what an application documents itself', () => {
  let app: INestApplication;
  let document: OpenAPIObject;

  beforeAll(async () => {
    app = await createApp([OwnController, PluginController]);
    document = documentOf(app);
  });

  const operation = (path: string, method = 'post') =>
    operationOf(document, path === '' ? '/own' : `/own/${path}`, method);
  const headers = (path: string) =>
    operation(path).parameters.filter((parameter: any) => parameter.in === 'header');

  it('is kept, and the problem details are added in their own media type', () => {
    const { responses } = operation('validation');
    expect(responses[400].description).toBe('Not valid.');
    expect(responses[400].content['application/json']).toEqual({
      schema: { $ref: '#/components/schemas/ValidationError' },
    });
    expect(responses[400].content['application/problem+json'].examples).toHaveProperty(
      'idempotency_key_missing',
    );
  });

  it('takes precedence over the same response, in the same media type and the same header', () => {
    const { responses } = operation('problem');
    expect(responses[409]).toEqual({
      description: 'Sold out, or in progress.',
      headers: { 'retry-after': ownRetryAfter },
      content: { 'application/problem+json': { schema: { type: 'string' } } },
    });
  });

  it('takes precedence over the key header, in any case of its name', () => {
    expect(headers('header')).toEqual([
      {
        name: 'idempotency-key',
        in: 'header',
        description: 'The number of the order.',
        required: false,
        schema: expect.objectContaining({ type: 'string', maxLength: 12 }),
      },
    ]);
  });

  it('gets the missing members only', () => {
    const [openHeader] = headers('open-header');
    expect(openHeader.description).toContain('24 hours');
    expect(openHeader.schema).toMatchObject({ type: 'string', maxLength: 255 });
    const injected = headers('injected');
    expect(injected.map(({ name }: any) => name)).toEqual(['idempotency-key', 'x-trace']);
    expect(injected[0]).toMatchObject({ description: expect.stringContaining('24 hours') });
    expect(injected[1]).not.toHaveProperty('description');
  });

  it('keeps a header that is described by its content or by a reference', () => {
    const [byContent] = headers('content-header');
    expect(byContent).not.toHaveProperty('schema');
    expect(byContent.content).toEqual({ 'text/plain': { schema: { type: 'string' } } });
    expect(byContent.description).toContain('24 hours');
    const [byReference] = headers('referring-header');
    expect(byReference.schema).toMatchObject({ $ref: '#/components/schemas/Key' });
    expect(byReference.schema).not.toHaveProperty('maxLength');
  });

  it('takes precedence over the replay header', () => {
    const { responses } = operation('marker');
    expect(responses[201]).toMatchObject({
      description: 'Made.',
      headers: { 'idempotent-replayed': ownMarker },
    });
    expect(Object.keys(responses[201].headers)).toHaveLength(1);
  });

  it('comes first in the description of the operation', () => {
    const { description } = operation('described');
    expect(description).toMatch(/^Makes one\.\n\nFor at least 24 hours/);
  });

  it('may be a range of statuses, which gets the replay header, or the default, which does not', () => {
    const { responses } = operation('ranges');
    expect(responses['2XX'].headers).toHaveProperty('Idempotent-Replayed');
    expect(responses.default).toEqual({ description: 'Anything else.' });
    expect(responses).toHaveProperty('409');
  });

  it('is not changed when other routes share it', () => {
    const { responses, parameters } = operation('', 'get');
    expect(responses).toEqual({
      200: { description: '' },
      202: { description: 'All of them share this.' },
    });
    expect(operation('validation').responses[202]).toHaveProperty('headers');
    expect(parameters).toEqual([]);
  });

  it('may be a reference to a response that is described elsewhere', () => {
    const config = new DocumentBuilder().build();
    const reference = { $ref: '#/components/responses/Conflict' };
    const document = documentIdempotency(app, () => {
      const plain = SwaggerModule.createDocument(app, config);
      plain.paths['/own/problem']!.post!.responses[409] = reference;
      return plain;
    });
    expect(operationOf(document, '/own/problem').responses[409]).toEqual(reference);
  });

  it('may come from the metadata of the compiler plugin', () => {
    const { responses } = operationOf(document, '/plugin');
    expect(Object.keys(responses)).toEqual(['201', '400', '409', '422', '503']);
    expect(responses[201].content['application/json']).toEqual({
      schema: { $ref: '#/components/schemas/ValidationError' },
    });
    expect(responses[201].headers).toHaveProperty('Idempotent-Replayed');
  });

  it('has no marks left after a document that cannot be created', () => {
    const failing = () =>
      documentIdempotency(app, () => {
        throw new Error('planned');
      });
    expect(failing).toThrow('planned');
    const plain = SwaggerModule.createDocument(app, new DocumentBuilder().build());
    expect(JSON.stringify(plain)).not.toContain('x-nestjs-idempotency');
  });

  it('leaves a valid document', async () => {
    const config = new DocumentBuilder();
    // For all documents of the process: later ones would have it, too.
    config.addGlobalParameters({ name: 'X-Tenant', in: 'header' });
    const document = documentOf(app, config);
    document.components!.schemas!.Key = { type: 'string' };
    await expect(SwaggerParser.validate(structuredClone(document) as any)).resolves.toBeDefined();
  });
});
