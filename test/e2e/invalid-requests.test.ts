import { Body, Controller, Injectable, Post } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import {
  IdempotencyEvents,
  IdempotencyService,
  Idempotent,
  type IdempotencyEvent,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { Public } from '../support/http/callers.guard.js';
import { platforms } from '../support/http/combinations.js';
import type { Sending } from '../support/http/scenario.js';
import { startApp, type TestApp } from '../support/http/start-app.js';
import { callingApp, rejection, type CallingApp } from '../support/nest/calling-app.js';

const BODY = { amount: 1 };
/** Deeper than what is compared. */
const DEEP = JSON.parse('['.repeat(2_000) + ']'.repeat(2_000)) as unknown;

@Controller()
class Payments {
  @Public()
  @Post('payments')
  @Idempotent({ operation: 'pay' })
  pay(@Body() body: unknown) {
    return body;
  }
}

describe.each(platforms)(
  'a request on %s that is rejected before it claims its key',
  (platform) => {
    let app: TestApp;
    const events: IdempotencyEvent[] = [];
    beforeAll(async () => {
      app = await startApp({ platform, controllers: [Payments], store: memoryStore() });
      app.nest.get(IdempotencyEvents, { strict: false }).subscribe((event) => events.push(event));
    });
    afterEach(() => void (events.length = 0));
    afterAll(() => app.close());

    it.each<{ reason: string; sending: Sending }>([
      { reason: 'key_missing', sending: { key: null, json: BODY } },
      { reason: 'key_invalid', sending: { key: ['one', 'two'], json: BODY } },
      { reason: 'caller_unknown', sending: { as: null, json: BODY } },
      { reason: 'content_invalid', sending: { json: DEEP } },
    ])('is reported: $reason', async ({ reason, sending }) => {
      const response = await app.scenario().post('/payments', sending);
      expect(response.status).toBe(400);
      expect(events).toEqual([
        { type: 'invalid_request', operation: 'pay', transport: 'http', reason },
      ]);
    });

    it('is not reported as such, if its error is of another kind or later', async () => {
      const scenario = app.scenario();
      await scenario.post('/payments', { json: BODY });
      await scenario.post('/payments', { json: { amount: 2 } });
      const types = events.map(({ type }) => type);
      expect(types).toEqual(['acquired', 'completed', 'ended', 'rejected']);
    });
  },
);

interface Invoice {
  readonly id?: string;
  readonly tenant?: string;
  readonly total?: unknown;
}

@Injectable()
class Invoices {
  @Idempotent({
    operation: 'send',
    key: ({ id }: Invoice) => id!,
    scope: ({ tenant }: Invoice) => tenant!,
    payload: ({ total }: Invoice) => ({ total }),
  })
  async send(_: Invoice): Promise<void> {
    await Promise.resolve();
  }
}

describe('a call that is rejected before it claims its key', () => {
  let app: CallingApp;
  beforeAll(async () => void (app = await callingApp({ providers: [Invoices] })));
  afterEach(() => void (app.events.length = 0));
  afterAll(() => app.nest.close());

  const reportedAs = (reason: string) => [
    { type: 'invalid_request', operation: 'send', transport: 'call', reason },
  ];

  it.each<{ reason: string; invoice: Invoice }>([
    { reason: 'key_missing', invoice: { tenant: 'acme' } },
    { reason: 'caller_unknown', invoice: { id: '1' } },
    { reason: 'content_invalid', invoice: { id: '1', tenant: 'acme', total: NaN } },
  ])('is reported: $reason', async ({ reason, invoice }) => {
    await rejection(app.nest.get(Invoices).send(invoice));
    expect(app.events).toEqual(reportedAs(reason));
  });

  it('by the service is reported: content_invalid', async () => {
    const call = { operation: 'send', key: '1', scope: 'acme', payload: { total: NaN } };
    await rejection(app.nest.get(IdempotencyService, { strict: false }).run(call, () => 1));
    expect(app.events).toEqual(reportedAs('content_invalid'));
  });
});
