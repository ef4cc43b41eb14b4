import { beforeAll, describe, expect, it } from '@jest/globals';
import { Controller, Post } from '@nestjs/common';
import { RpcException } from '@nestjs/microservices';
import { WsException } from '@nestjs/websockets';
import { Idempotent, type OperationRejectedError } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { InScenario, Scenario } from '../support/http/scenario.js';
import { startApp } from '../support/http/start-app.js';
import {
  PROTOCOL_DEFAULTS,
  REJECTION_CODES,
  REJECTIONS,
  type Rejection,
  type RejectionCode,
} from '../support/internals/core.js';
import { rejectedResult, RejectionMapper, toFieldError } from '../support/internals/call.js';
import { stalePages } from '../support/docs/problem-pages.js';
import { shippedTexts } from '../support/packages/shipped-texts/shipped-texts.js';
import { useServer } from '../support/servers/use-server.js';
import { documentOf, operationOf } from './swagger/support/document.js';

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

  const { retryAfterMs } = PROTOCOL_DEFAULTS.duplicates;
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
    const client = shippedTexts().find(({ path }) => path.startsWith('lib/client/'));
    expect(client?.source).toContain(`\n  ${code}: true,\n`);
    expect(stalePages()).toEqual(['planted', 'index: planted']);
  });
});
