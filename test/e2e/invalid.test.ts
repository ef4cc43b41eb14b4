import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Body, Controller, Injectable, Post } from '@nestjs/common';
import { RpcException } from '@nestjs/microservices';
import { WsException } from '@nestjs/websockets';
import {
  type IdempotencyEvent,
  IdempotencyEvents,
  IdempotencyService,
  Idempotent,
  type OperationRejectedError,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { stalePages } from '../support/docs/problem-pages.js';
import { Public } from '../support/http/callers.guard.js';
import { platforms } from '../support/http/combinations.js';
import { InScenario, Scenario, type Sending } from '../support/http/scenario.js';
import { startApp, type TestApp } from '../support/http/start-app.js';
import { rejectedResult, RejectionMapper, toFieldError } from '../support/internals/call.js';
import {
  PROTOCOL_DEFAULTS,
  type Rejection,
  REJECTION_CODES,
  type RejectionCode,
  REJECTIONS,
} from '../support/internals/core.js';
import { callingApp, type CallingApp, rejection } from '../support/nest/calling-app.js';
import { shippedTexts } from '../support/packages/shipped-texts/shipped-texts.js';
import { useServer } from '../support/servers/use-server.js';
import { documentOf, operationOf } from './swagger/support/document.js';

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

const code = 'idempotency_planted' as RejectionCode;
const planted: Rejection = {
  status: 423,
  title: 'The operation is planted',
  detail: 'Wait until it has grown.',
  retryable: true,
  message: 'The call is planted.',
  remedy: 'Wait until it has grown.',
  page: 'planted',
};

@Controller('plants')
class PlantsController {
  @Post()
  @Idempotent()
  async create(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }
}

/** As if the table had one more entry. Jest loads the modules anew for each file. */
describe('a code that is added to the table of rejections', () => {
  beforeAll(() => {
    Object.assign(REJECTIONS, { [code]: planted });
    Object.assign(REJECTION_CODES, { mismatch: code });
  });

  const app = useServer(() =>
    startApp({ platform: 'express', store: memoryStore(), controllers: [PlantsController] }),
  );

  const { retryAfter: retryAfterMs } = PROTOCOL_DEFAULTS.duplicates;
  const rejected = () => {
    const result = rejectedResult(code, PROTOCOL_DEFAULTS);
    if (result.kind !== 'rejected') throw new Error(result.kind);
    return result.error;
  };
  const message = 'The call is planted. Wait until it has grown.';

  it('is an HTTP problem', async () => {
    const scenario = app.scenario();
    await scenario.post('/plants', { json: { amount: 1 } });
    const response = await scenario.post('/plants', { json: { amount: 2 } });
    expect(response.header('retry-after')).toBe('1');
    const { status, title, detail, retryable } = planted;
    expect(response.status).toBe(status);
    const type = expect.stringMatching(/\/planted$/);
    expect(response.json).toEqual({ type, title, status, detail, code, retryable });
  });

  it('is the error of a call', () => {
    expect(rejected()).toMatchObject({
      code,
      message,
      retryAfterMs,
    } satisfies Partial<OperationRejectedError>);
  });

  it.each([RpcException, WsException])('is in the payload of %p', (exception) => {
    const error = new RejectionMapper(exception).toClientError(rejected());
    expect((error as RpcException).getError()).toEqual({
      status: 'error',
      code,
      message,
      retryAfterMs,
    });
  });

  it('is in the extensions of a GraphQL error', () => {
    expect(toFieldError(rejected())).toMatchObject({
      message,
      extensions: { code, retryAfterMs },
    });
  });

  it('is in the OpenAPI document', () => {
    const response = operationOf(documentOf(app.nest), '/plants').responses[423];
    const { examples } = response.content['application/problem+json'];
    expect(Object.keys(examples)).toEqual([code]);
    expect(response.headers).toHaveProperty('Retry-After');
  });

  it("makes the client's codes and the pages stale", () => {
    const client = shippedTexts().find(({ path }) => path.startsWith('packages/client/'));
    expect(client?.source).toContain(`\n  ${code}: true,\n`);
    expect(stalePages()).toEqual(['planted', 'index: planted']);
  });
});
