import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Body, Controller, Post } from '@nestjs/common';
import type { OpenAPIObject } from '@nestjs/swagger';
import { Idempotent, StoreUnavailableError } from 'nestjs-idempotency';
import type { BeginReply } from 'nestjs-idempotency/store';
import { MemoryIdempotencyStore, memoryStore } from 'nestjs-idempotency/memory';
import { Public } from '../../support/http/callers.guard.js';
import { platforms } from '../../support/http/combinations.js';
import type { RawResponse } from '../../support/http/wire/raw-response.js';
import { InScenario, Scenario } from '../../support/http/scenario.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';
import { documentOf, operationOf } from './support/document.js';

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
