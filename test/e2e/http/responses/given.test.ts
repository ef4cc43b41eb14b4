import { Controller, Headers, Post, ServiceUnavailableException } from '@nestjs/common';
import { afterEach, describe, expect, it } from '@jest/globals';
import {
  IdempotencyRecords,
  Idempotent,
  type ActOptions,
  type GivenOutcome,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import type { Platform } from '../../../support/http/combinations.js';
import { startApp, type TestApp } from '../../../support/http/start-app.js';
import { rejection } from '../../../support/nest/calling-app.js';

const WHO = { actor: 'mia', reason: 'the provider has the charge' };
const KEY = 'a-key-of-a-client';

let ran = 0;

@Controller()
class Payments {
  @Post('payments')
  @Idempotent({ operation: 'pay' })
  pay(@Headers('x-fails') fails: string | undefined) {
    if (fails !== undefined) throw new ServiceUnavailableException();
    ran += 1;
    return { charge: ran };
  }
}

describe.each<Platform>(['express', 'fastify'])('What an operator gives, on %s', (platform) => {
  let app: TestApp | undefined;
  afterEach(async () => {
    await app?.close();
    app = undefined;
  });

  /** A route whose first request has failed. */
  async function failed(annotate = true) {
    ran = 0;
    app = await startApp({
      platform,
      controllers: [Payments],
      store: memoryStore(),
      guard: { canActivate: () => true },
      options: { annotate, caller: { anonymous: 'shared' } },
    });
    const send = (headers: Record<string, string> = {}) =>
      fetch(`http://127.0.0.1:${String(app!.port)}/payments`, {
        method: 'POST',
        headers: { 'idempotency-key': KEY, ...headers },
      });
    expect((await send({ 'x-fails': 'yes' })).status).toBe(503);
    const records = app.nest.get(IdempotencyRecords, { strict: false });
    const [sheet] = await records.find({ key: KEY, scope: [], operation: 'pay' });
    const complete = (given: GivenOutcome, more: Partial<ActOptions> = {}) =>
      records.complete(sheet!, { ...WHO, with: given, ...more });
    return { send, records, complete, sheet: sheet! };
  }

  it('is what a retry gets, as if the route had sent it', async () => {
    const { send, complete } = await failed();
    const body = { charge: 4711, note: 'grüße' };
    const headers = { Location: '/charges/4711' };
    expect(await complete({ kind: 'answer', status: 201, headers, body })).toMatchObject({
      kind: 'ok',
      isAudited: true,
    });
    for (let retry = 0; retry < 2; retry += 1) {
      const response = await send();
      expect(response.status).toBe(201);
      expect(response.headers.get('idempotent-replayed')).toBe('true');
      expect(response.headers.get('location')).toBe('/charges/4711');
      expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8');
      expect(await response.text()).toBe(JSON.stringify(body));
    }
    expect(ran).toBe(0);
  });

  it.each<[string, unknown, string, string | null]>([
    ['a text', 'paid', 'paid', 'text/plain; charset=utf-8'],
    ['bytes', Buffer.from([80, 255]), 'P\uFFFD', 'application/octet-stream'],
    ['nothing', undefined, '', null],
  ])('may be %s', async (_, body, text, type) => {
    const { send, complete } = await failed();
    await complete({ kind: 'answer', status: 402, body });
    const response = await send();
    expect([response.status, await response.text()]).toEqual([402, text]);
    expect(response.headers.get('content-type')).toBe(type);
    expect(ran).toBe(0);
  });

  it.each<[string, GivenOutcome, Partial<ActOptions>, string]>([
    ['a value', { kind: 'value', value: 1 }, {}, 'HTTP route'],
    ['another operation', { kind: 'answer', status: 200 }, { operation: 'refund' }, '"pay"'],
    ['no status', { kind: 'answer', status: 99 }, {}, 'with.status'],
    [
      'a cookie',
      { kind: 'answer', status: 200, headers: { 'set-cookie': 'a=b' } },
      {},
      'with.headers',
    ],
    [
      'two lines in a header',
      { kind: 'answer', status: 200, headers: { location: '/\r\nset-cookie: a=b' } },
      {},
      'with.headers.location',
    ],
    ['too much', { kind: 'answer', status: 200, body: 'x'.repeat(65_536) }, {}, '65536'],
  ])('is refused with %s, and nothing is done', async (_, given, more, says) => {
    const { send, records, complete, sheet } = await failed();
    const error = await rejection(complete(given, more));
    expect(error).toMatchObject({ code: 'idempotency_options_invalid' });
    expect(error.message).toContain(says);
    expect(error.message).not.toMatch(/xxx|a=b/);
    expect((await records.explain(sheet.recordKey))!.expected).toEqual(sheet.expected);
    expect((await send()).status).toBe(201);
    expect(ran).toBe(1);
  });

  it('needs the operation where the record does not say it', async () => {
    const { send, complete } = await failed(false);
    const given = { kind: 'answer', status: 204 } as const;
    expect((await rejection(complete(given))).message).toContain('give "operation"');
    expect(await complete(given, { operation: 'pay' })).toMatchObject({ kind: 'ok' });
    expect((await send()).status).toBe(204);
    expect(ran).toBe(0);
  });
});
