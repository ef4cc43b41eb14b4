/* eslint-disable @typescript-eslint/no-empty-function -- of these handlers only the decorators count */
import { describe, expect, it } from '@jest/globals';
import { Controller, Get, Headers, Post } from '@nestjs/common';
import {
  ApiBadRequestResponse,
  ApiConflictResponse,
  ApiCreatedResponse,
  ApiHeader,
  ApiOperation,
  ApiProperty,
  ApiResponse,
  DocumentBuilder,
  getSchemaPath,
  SwaggerModule,
} from '@nestjs/swagger';
import SwaggerParser from '@apidevtools/swagger-parser';
import { Idempotent } from 'nestjs-idempotency';
import { documentIdempotency } from 'nestjs-idempotency/swagger';
import { createApp, documentOf, operationOf } from './support/document.js';

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
