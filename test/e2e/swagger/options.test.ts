/* eslint-disable @typescript-eslint/no-empty-function -- of these handlers only the decorators count */
import { beforeAll, describe, expect, it } from '@jest/globals';
import { Body, Controller, Get, HttpCode, Post } from '@nestjs/common';
import { ApiWebhook, DocumentBuilder, type OpenAPIObject } from '@nestjs/swagger';
import SwaggerParser from '@apidevtools/swagger-parser';
import { Idempotent } from 'nestjs-idempotency';
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
