import { expect, it } from '@jest/globals';
import { Body, Controller, Headers, Injectable, Post, type ExecutionContext } from '@nestjs/common';
import type { ReadableSpan } from '@opentelemetry/sdk-trace-node';
import fc from 'fast-check';
import { IdempotencyService, Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { openTelemetry } from 'nestjs-idempotency/opentelemetry';
import { startApp } from '../../support/http/start-app.js';
import { FaultyStore } from '../../support/stores/faulty-store.js';
import { TestSdk, traceRequests, written } from '../../support/telemetry/test-sdk.js';

@Injectable()
class Mails {
  @Idempotent({ key: (id: string, _user: string) => id, scope: (_id, user) => user })
  async send(id: string, user: string, text: string) {
    return Promise.reject(new Error(`${id} ${user} ${text}`));
  }
}

@Controller()
class MarkedController {
  constructor(
    private readonly mails: Mails,
    private readonly idempotency: IdempotencyService,
  ) {}

  @Post('things')
  @Idempotent()
  async create(
    @Body() { body }: { body: string },
    @Headers('idempotency-key') key: string,
    @Headers('authorization') user: string,
  ) {
    await this.mails.send(key, user, body).catch(() => undefined);
    return this.idempotency.run(
      { operation: 'things.create', key, scope: user, payload: { body } },
      () => ({ body }),
    );
  }
}

const mark = fc.stringMatching(/^[a-zA-Z0-9]{12}$/);
const inputs = fc.record({ key: mark, user: mark, body: mark, header: mark });

/** All that an exporter may send of a span, but for the attribute of the test's own instrumentation. */
const exported = (span: ReadableSpan) =>
  JSON.stringify([
    span.name,
    written(span),
    span.links,
    span.events,
    span.status,
    span.instrumentationScope,
    span.resource.attributes,
    span.spanContext(),
  ]);

it.each(['auto', 'always'] as const)(
  "no key, caller, content or message of an error is in a span, with spans: '%s'",
  async (spans) => {
    const sdk = TestSdk.start();
    const store = new FaultyStore(memoryStore());
    const app = await startApp({
      platform: 'express',
      store,
      controllers: [MarkedController],
      providers: [Mails],
      guard: {
        canActivate: (context: ExecutionContext) => {
          const request = context.switchToHttp().getRequest<Record<string, unknown>>();
          const { authorization } = request.headers as { authorization?: string };
          return Object.assign(request, { user: { id: authorization } }) === request;
        },
      },
      options: { telemetry: openTelemetry({ spans }), storeErrors: { commandTimeoutMs: 5_000 } },
      configure: (nest) => {
        traceRequests(nest);
      },
    });
    try {
      for (const { key, user, body, header } of fc.sample(inputs, 20)) {
        const send = async (content: object, more: Record<string, string> = {}) => {
          const headers = {
            'idempotency-key': `"${key}"`,
            authorization: user,
            'x-header': header,
            'content-type': 'application/json',
            ...more,
          };
          const init = { method: 'POST', headers, body: JSON.stringify(content) };
          return (await fetch(`http://127.0.0.1:${String(app.port)}/things`, init)).status;
        };
        const before = sdk.spans.length;
        expect(await send({ body })).toBe(201);
        expect(await send({ body })).toBe(201);
        expect(await send({ body, header })).toBe(422);
        expect(await send({ body }, { 'idempotency-key': `${key}""${user}` })).toBe(400);
        store.next('begin', () => Promise.reject(new Error([key, user, body, header].join(' '))));
        expect(await send({ body })).toBe(503);
        await sdk.ended(before + 7);
        const text = sdk.spans.slice(before).map(exported).join('\n');
        for (const known of ['executed', 'replayed', 'mismatch', 'key_invalid', 'error.type']) {
          expect(text).toContain(known);
        }
        expect([key, user, body, header].filter((each) => text.includes(each))).toEqual([]);
      }
    } finally {
      await app.close();
      await sdk.stop();
    }
  },
);
