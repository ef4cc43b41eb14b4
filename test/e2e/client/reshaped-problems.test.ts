import {
  Catch,
  Controller,
  HttpException,
  Post,
  type ArgumentsHost,
  type ExceptionFilter,
} from '@nestjs/common';
import { describe, expect, it } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { idempotentFetch, type IdempotentFetchOptions } from 'nestjs-idempotency/client';
import { memoryStore } from 'nestjs-idempotency/memory';
import { fetchWithoutStreams } from '../../support/http/wire/fetch-without-streams.js';
import { platforms } from '../../support/http/combinations.js';
import type { Reply } from '../../support/http/reply.js';
import { InScenario, SCENARIO_HEADER, Scenario } from '../../support/http/scenario.js';
import { startApp } from '../../support/http/start-app.js';

@Controller()
class PaymentsController {
  @Post('payments')
  @Idempotent()
  async pay(@InScenario() scenario: Scenario) {
    return { paid: await scenario.run() };
  }
}

/** As in many applications: own members and a few of the error's, sent as `application/json`. */
@Catch(HttpException)
class OwnErrorsFilter implements ExceptionFilter {
  catch(error: HttpException, host: ArgumentsHost): void {
    const { code } = error.getResponse() as { readonly code?: string };
    const reply = host.switchToHttp().getResponse<Reply>().status(error.getStatus());
    reply.send({ code, statusCode: error.getStatus(), timestamp: new Date().toISOString() });
  }
}

const fetches = [
  ['fetch', fetch],
  ['a fetch without streams', fetchWithoutStreams()],
] as const;

describe.each(platforms)('an API with its own exception filter, on %s', (platform) => {
  it.each(fetches)(
    'makes a second click wait for the first, and rejects another amount, with %s',
    async (_, sent) => {
      const app = await startApp({
        platform,
        store: memoryStore(),
        controllers: [PaymentsController],
        configure: (nest) => nest.useGlobalFilters(new OwnErrorsFilter()),
      });
      try {
        const scenario = app.scenario();
        const types: (string | null)[] = [];
        const observed: IdempotentFetchOptions['fetch'] = async (input, init) => {
          const response = await sent(input, init);
          if (response.status === 409) types.push(response.headers.get('content-type'));
          // The first click finishes only after the second got 409.
          if (types.length > 0) scenario.gate.open();
          return response;
        };
        const click = (options: IdempotentFetchOptions = {}, amount = 4_999) =>
          idempotentFetch(
            `http://127.0.0.1:${String(app.port)}/payments`,
            {
              method: 'POST',
              headers: {
                authorization: 'Bearer alice',
                'content-type': 'application/json',
                [SCENARIO_HEADER]: scenario.id,
              },
              body: JSON.stringify({ amount }),
            },
            { key: scenario.key, fetch: sent, ...options },
          );
        scenario.gate.close();
        const first = click();
        await scenario.started.reached(1);
        const second = await click({ fetch: observed });
        expect(types[0]).toBe('application/json; charset=utf-8');
        expect([second.response.status, second.replayed]).toEqual([201, true]);
        expect(await second.response.json()).toEqual(await (await first).response.json());
        await expect(click({}, 5_999)).rejects.toMatchObject({
          name: 'IdempotencyProblemError',
          code: 'idempotency_key_reused',
          retryable: false,
        });
        expect(scenario.executions).toBe(1);
      } finally {
        await app.close();
      }
    },
  );
});
