/* eslint-disable @typescript-eslint/no-empty-function -- of these handlers only the decorators count */
import { Body, Controller, Get, Headers, HttpCode, Post } from '@nestjs/common';
import {
  ApiBadRequestResponse,
  ApiConflictResponse,
  ApiCreatedResponse,
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
import { beforeAll, describe, expect, it } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { documentIdempotency } from 'nestjs-idempotency/swagger';
import SwaggerParser from '@apidevtools/swagger-parser';
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
  @Idempotent({ key: () => 'from-the-body', outcome: { retentionMs: 7 * 86_400_000 } })
  fromFunction(@Body() _: object) {}

  @Post('waiting')
  @Idempotent({ duplicates: { mode: 'wait', timeoutMs: 90_000, retryAfterMs: 2_500 } })
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
  @Idempotent({ outcome: { retentionMs: ({ status }) => (status === 201 ? 1_000 : 1) } })
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
  let document: OpenAPIObject;

  beforeAll(async () => {
    document = documentOf(await createApp([OptionsController, BareController]));
  });

  const post = (path: string) => operationOf(document, `/${path}`);
  const keyOf = (path: string) =>
    post(path).parameters.find((parameter: any) => parameter.in === 'header');
  const responsesOf = (path: string) => Object.keys(post(path).responses);
  const codesOf = (path: string, status: number) =>
    Object.keys(post(path).responses[status].content['application/problem+json'].examples);

  it.each(['3.0.0', '3.1.0'])('is valid OpenAPI %s according to a validator', async (version) => {
    const config = new DocumentBuilder().setOpenAPIVersion(version);
    const checked = documentOf(await createApp([OptionsController, BareController]), config);
    const validated = await SwaggerParser.validate(structuredClone(checked) as any);
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

  it('has one schema for all problem details', () => {
    const schema = { $ref: '#/components/schemas/IdempotencyProblemDocument' };
    for (const status of [400, 409, 422, 503]) {
      expect(post('default').responses[status].content['application/problem+json']).toMatchObject({
        schema,
      });
    }
    expect(document.components?.schemas?.IdempotencyProblemDocument).toMatchObject({
      type: 'object',
      required: ['type', 'title', 'status', 'detail', 'code', 'retryable'],
    });
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

  it('has a 429 when the module limits the attempts of a caller', async () => {
    const limits = { maxAttemptsPerCaller: 10 };
    const app = await createApp([OptionsController], { limits });
    const { responses } = operationOf(documentOf(app), '/default');
    const { examples } = responses[429].content['application/problem+json'];
    expect(Object.keys(examples)).toEqual(['idempotency_too_many_attempts']);
    expect(responsesOf('default')).not.toContain('429');
  });

  it('uses the defaults of the module', async () => {
    const options = { outcome: { retentionMs: 3_600_000 }, key: { from: 'X-Key', maxLength: 36 } };
    const app = await createApp([OptionsController], options);
    const [key] = operationOf(documentOf(app), '/default').parameters;
    expect(key).toMatchObject({
      name: 'X-Key',
      description: expect.stringContaining('For at least 1 hour after'),
      schema: { maxLength: 36 },
    });
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

describe('what an application documents itself', () => {
  const create = () => createApp([OwnController]);
  const operation = async (path: string, method = 'post') =>
    operationOf(documentOf(await create()), path === '' ? '/own' : `/own/${path}`, method);
  const headers = ({ parameters }: any) => parameters.filter((p: any) => p.in === 'header');

  it('is kept, and the problem details are added in their own media type', async () => {
    const { responses } = await operation('validation');
    expect(responses[400].description).toBe('Not valid.');
    expect(responses[400].content['application/json']).toEqual({
      schema: { $ref: '#/components/schemas/ValidationError' },
    });
    expect(responses[400].content['application/problem+json'].examples).toHaveProperty(
      'idempotency_key_missing',
    );
  });

  it('takes precedence over the same response, in the same media type and the same header', async () => {
    const { responses } = await operation('problem');
    expect(responses[409]).toEqual({
      description: 'Sold out, or in progress.',
      headers: { 'retry-after': ownRetryAfter },
      content: { 'application/problem+json': { schema: { type: 'string' } } },
    });
  });

  it('takes precedence over the key header, in any case of its name', async () => {
    expect(headers(await operation('header'))).toEqual([
      {
        name: 'idempotency-key',
        in: 'header',
        description: 'The number of the order.',
        required: false,
        schema: expect.objectContaining({ type: 'string', maxLength: 12 }),
      },
    ]);
  });

  it('gets the missing members only', async () => {
    const [openHeader] = headers(await operation('open-header'));
    expect(openHeader.description).toContain('24 hours');
    expect(openHeader.schema).toMatchObject({ type: 'string', maxLength: 255 });
    const injected = headers(await operation('injected'));
    expect(injected.map(({ name }: any) => name)).toEqual(['idempotency-key', 'x-trace']);
    expect(injected[0]).toMatchObject({ description: expect.stringContaining('24 hours') });
    expect(injected[1]).not.toHaveProperty('description');
  });

  it('keeps a header that is described by its content or by a reference', async () => {
    const [byContent] = headers(await operation('content-header'));
    expect(byContent).not.toHaveProperty('schema');
    expect(byContent.content).toEqual({ 'text/plain': { schema: { type: 'string' } } });
    expect(byContent.description).toContain('24 hours');
    const [byReference] = headers(await operation('referring-header'));
    expect(byReference.schema).toMatchObject({ $ref: '#/components/schemas/Key' });
    expect(byReference.schema).not.toHaveProperty('maxLength');
  });

  it('takes precedence over the replay header', async () => {
    const { responses } = await operation('marker');
    expect(responses[201]).toMatchObject({
      description: 'Made.',
      headers: { 'idempotent-replayed': ownMarker },
    });
    expect(Object.keys(responses[201].headers)).toHaveLength(1);
  });

  it('comes first in the description of the operation', async () => {
    const { description } = await operation('described');
    expect(description).toMatch(/^Makes one\.\n\nFor at least 24 hours/);
  });

  it('may be a range of statuses, which gets the replay header, or the default, which does not', async () => {
    const { responses } = await operation('ranges');
    expect(responses['2XX'].headers).toHaveProperty('Idempotent-Replayed');
    expect(responses.default).toEqual({ description: 'Anything else.' });
    expect(responses).toHaveProperty('409');
  });

  it('is not changed when other routes share it', async () => {
    const { responses, parameters } = await operation('', 'get');
    expect(responses).toEqual({
      200: { description: '' },
      202: { description: 'All of them share this.' },
    });
    expect((await operation('validation')).responses[202]).toHaveProperty('headers');
    expect(parameters).toEqual([]);
  });

  it('may be a reference to a response that is described elsewhere', async () => {
    const app = await create();
    const config = new DocumentBuilder().build();
    const reference = { $ref: '#/components/responses/Conflict' };
    const document = documentIdempotency(app, () => {
      const plain = SwaggerModule.createDocument(app, config);
      plain.paths['/own/problem']!.post!.responses[409] = reference;
      return plain;
    });
    expect(operationOf(document, '/own/problem').responses[409]).toEqual(reference);
  });

  it('is unchanged after a document was created, and creating it again gives the same document', async () => {
    const app = await create();
    const config = new DocumentBuilder().build();
    const before = JSON.stringify(SwaggerModule.createDocument(app, config));
    const first = JSON.stringify(documentOf(app));
    const second = JSON.stringify(documentOf(app));
    expect(second).toBe(first);
    expect(JSON.stringify(SwaggerModule.createDocument(app, config))).toBe(before);
    expect(before).not.toContain('x-nestjs-idempotency');
  });

  it('leaves a valid document', async () => {
    const config = new DocumentBuilder();
    config.addGlobalParameters({ name: 'X-Tenant', in: 'header' });
    const document = documentOf(await create(), config);
    document.components!.schemas!.Key = { type: 'string' };
    await expect(SwaggerParser.validate(structuredClone(document) as any)).resolves.toBeDefined();
  });
});

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

describe('the metadata of the compiler plugin', () => {
  it('is kept as well', async () => {
    const document = documentOf(await createApp([PluginController]));
    const { responses } = operationOf(document, '/plugin');
    expect(Object.keys(responses)).toEqual(['201', '400', '409', '422', '503']);
    expect(responses[201].content['application/json']).toEqual({
      schema: { $ref: '#/components/schemas/ValidationError' },
    });
    expect(responses[201].headers).toHaveProperty('Idempotent-Replayed');
  });
});

describe('a document that cannot be created', () => {
  it('leaves no marks behind', async () => {
    const app = await createApp([OwnController]);
    const failing = () =>
      documentIdempotency(app, () => {
        throw new Error('planned');
      });
    expect(failing).toThrow('planned');
    const plain = SwaggerModule.createDocument(app, new DocumentBuilder().build());
    expect(JSON.stringify(plain)).not.toContain('x-nestjs-idempotency');
  });
});
