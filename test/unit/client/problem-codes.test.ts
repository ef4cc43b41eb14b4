import { describe, expect, it } from '@jest/globals';
import { idempotentFetch } from 'nestjs-idempotency/client';
import { PROBLEM_RETRYABLE } from '../../support/internals/client.js';
import { problems as exported } from '../../support/internals/transports/http.js';
import { ScriptedServer } from '../../support/scripted-server.js';
import { useServer } from '../../support/use-server.js';

type ProblemClass = new (context: exported.ProblemContext) => exported.IdempotencyProblem;

const isProblemClass = (value: unknown): value is ProblemClass =>
  typeof value === 'function' && value.prototype instanceof exported.IdempotencyProblem;

const problems = Object.values<unknown>(exported)
  .filter(isProblemClass)
  .map((Problem) => new Problem({ typeBase: 'https://api.example', retryAfterMs: 1_000 }));

const server = useServer(() => ScriptedServer.start());

describe("the server's codes", () => {
  it('are those that the client knows, with whether a retry can help', () => {
    const reported = problems.map(({ code, retryable }): [string, boolean] => [code, retryable]);
    expect(PROBLEM_RETRYABLE).toEqual(Object.fromEntries(reported));
  });

  it.each(problems.map((problem) => ({ code: problem.code, problem })))(
    '$code suffices where an exception filter keeps nothing else',
    async ({ code, problem }) => {
      server.runSteps({
        status: problem.getStatus(),
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ code }),
      });
      await expect(
        idempotentFetch(server.url, { method: 'POST' }, { maxTries: 1 }),
      ).rejects.toMatchObject({ code, retryable: problem.retryable });
    },
  );
});
