import {
  Catch,
  Controller,
  Header,
  HttpException,
  Post,
  type ArgumentsHost,
  type ExceptionFilter,
} from '@nestjs/common';
import { describe, expect, it } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { Public } from '../../../support/http/callers.guard.js';
import { platforms } from '../../../support/http/combinations.js';
import { expectProblem, problems, type ProblemName } from '../../../support/http/expectations.js';
import type { RawResponse } from '../../../support/http/wire/raw-response.js';
import type { Reply } from '../../../support/http/reply.js';
import { InScenario, Scenario } from '../../../support/http/scenario.js';
import { startApp, type StartAppOptions, type TestApp } from '../../../support/http/start-app.js';
import { useServer } from '../../../support/servers/use-server.js';

@Controller()
class ProblemsController {
  @Post('things')
  @Idempotent()
  async create(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('table')
  @Header('Content-Type', 'text/csv; charset=utf-8')
  @Header('Content-Language', 'de')
  @Idempotent()
  async table(@InScenario() scenario: Scenario) {
    return `execution;${await scenario.run()}`;
  }

  @Post('public')
  @Public()
  @Idempotent()
  async anonymous(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('unstored')
  @Idempotent({ outcome: { storeBody: false } })
  async unstored(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }
}

/** Gives all errors the application's own shape. */
@Catch(HttpException)
class OwnErrorsFilter implements ExceptionFilter {
  catch(error: HttpException, host: ArgumentsHost): void {
    const { code } = error as { code?: string };
    host.switchToHttp().getResponse<Reply>().status(error.getStatus()).send({ failure: code });
  }
}

/** Sends the problem document under the application's own media type. */
@Catch(HttpException)
class OwnTypeFilter implements ExceptionFilter {
  catch(error: HttpException, host: ArgumentsHost): void {
    const reply = host.switchToHttp().getResponse<Reply>().status(error.getStatus());
    reply.header('content-type', 'application/vnd.failure+json; charset=utf-8');
    reply.send(error.getResponse());
  }
}

describe.each(platforms)('error documents on %s', (platform) => {
  const started = (rest: Pick<StartAppOptions, 'options' | 'configure'> = {}) =>
    useServer(() =>
      startApp({ platform, store: memoryStore(), controllers: [ProblemsController], ...rest }),
    );
  const app = started();
  const ownBaseApp = started({
    options: { http: { problemTypeBase: 'https://api.example.com/problems' } },
  });
  const mappingApp = started({
    configure: (nest) => nest.useGlobalFilters(new OwnErrorsFilter()),
  });
  const typingApp = started({ configure: (nest) => nest.useGlobalFilters(new OwnTypeFilter()) });

  /** Provokes every problem that can occur while the store is available. */
  async function provokeAll(of: TestApp) {
    const scenario = of.scenario();
    const json = { amount: 1 };
    scenario.gate.close();
    const pending = scenario.start('POST', '/things', { json });
    await scenario.started.reached(1);
    const inProgress = await scenario.post('/things', { json });
    scenario.gate.open();
    await pending.response;
    await scenario.post('/unstored', { json });
    const responses = {
      'key-missing': await scenario.post('/things', { key: null, json }),
      'key-invalid': await scenario.post('/things', { key: `"${scenario.key}`, json }),
      'caller-unknown': await scenario.post('/public', { as: null, json }),
      'key-reused': await scenario.post('/things', { json: { amount: 2 } }),
      'in-progress': inProgress,
      'response-not-kept': await scenario.post('/unstored', { json }),
      'content-invalid': await scenario.post('/things', { body: '{"amount":1e400}' }),
    } satisfies Partial<Record<ProblemName, RawResponse>>;
    return Object.entries(responses) as [ProblemName, RawResponse][];
  }

  it('C84 http.problemTypeBase makes the types point to the API’s own pages', async () => {
    const responses = await provokeAll(ownBaseApp);
    for (const [name, { json }] of responses) {
      expect(json.type).toBe(`https://api.example.com/problems/${name}`);
    }
  });

  it('C83 an application can map problems in its own filters', async () => {
    const responses = await provokeAll(mappingApp);
    for (const [name, response] of responses) {
      const { status, json } = response;
      expect({ status, json }).toEqual({
        status: problems[name].status,
        json: { failure: problems[name].code },
      });
      // Headers about the document go with it; Retry-After is about the request and stays.
      expect(response.header('content-type')).toBe('application/json; charset=utf-8');
      expect(response.header('content-language')).toBeUndefined();
      expect(response.header('retry-after')).toBe(problems[name].retryable ? '1' : undefined);
    }
  });

  it('C83 a filter can send the document under its own media type', async () => {
    const responses = await provokeAll(typingApp);
    for (const [name, response] of responses) {
      expect(response.json).toMatchObject({ code: problems[name].code });
      expect(response.header('content-type')).toBe('application/vnd.failure+json; charset=utf-8');
      expect(response.header('content-language')).toBe('en');
    }
  });

  it('C83 a problem keeps its own media type and language on a route that sets others', async () => {
    const scenario = app.scenario();
    const response = await scenario.post('/table', { json: {} });
    expect([response.status, response.header('content-type')]).toEqual([
      201,
      'text/csv; charset=utf-8',
    ]);
    const problem = await scenario.post('/table', { json: { another: 'content' } });
    expectProblem(problem, 'key-reused');
    expect(problem.header('content-language')).toBe('en');
    const replay = await scenario.post('/table', { json: {} });
    expect([
      replay.replayed,
      replay.header('content-type'),
      replay.header('content-language'),
    ]).toEqual([true, 'text/csv; charset=utf-8', 'de']);
  });
});
