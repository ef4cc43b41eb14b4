import { PassThrough } from 'node:stream';
import { describe, expect, it } from '@jest/globals';
import { idempotentFetch, type IdempotentFetchOptions } from 'nestjs-idempotency/client';
import { fetchWithoutStreams } from '../../support/http/wire/fetch-without-streams.js';
import { problem, ScriptedServer, type Step } from '../../support/http/wire/scripted-server.js';
import { useServer } from '../../support/servers/use-server.js';

const replay: Step = {
  status: 201,
  headers: { 'idempotent-replayed': 'true' },
  body: '{"charge":1}',
};

const server = useServer(() => ScriptedServer.start());

function pay(options: IdempotentFetchOptions = {}) {
  const init = { method: 'POST', body: '{"amount":1200}' };
  const fetch = fetchWithoutStreams();
  return idempotentFetch(server.url, init, {
    fetch,
    backoffBaseMs: 1,
    backoffCapMs: 1,
    ...options,
  });
}

describe('a response without a stream', () => {
  it('belongs to the operation, and is readable', async () => {
    server.runSteps(replay);
    const { response, replayed } = await pay();
    expect([await response.json(), replayed]).toEqual([{ charge: 1 }, true]);
  });

  it.each<[string, Step]>([
    ['breaks off', 'break off in the body'],
    ['says that the first attempt is in progress', problem(409, 'in-progress', '0')],
    ['says that the store is unreachable', problem(503, 'store-unavailable', '0')],
  ])('is followed by another attempt where it %s', async (_, step) => {
    server.runSteps(step, step, replay);
    expect(await pay()).toMatchObject({ response: { status: 201 }, replayed: true, tries: 3 });
  });

  it.each([
    [400, 'key-missing'],
    [409, 'outcome-unknown'],
    [409, 'response-not-kept'],
    [422, 'key-reused'],
  ])("is not the operation's response where it is %i %s", async (status, slug) => {
    server.runSteps(problem(status, slug));
    await expect(pay()).rejects.toMatchObject({
      name: 'IdempotencyProblemError',
      code: `idempotency_${slug.replaceAll('-', '_')}`,
      retryable: false,
      tries: 1,
    });
  });

  it('is read where Node has a stream of its own kind', async () => {
    server.runSteps(problem(409, 'in-progress', '0'), replay);
    const fetch = fetchWithoutStreams({ body: new PassThrough() });
    expect(await pay({ fetch })).toMatchObject({ replayed: true, tries: 2 });
  });

  it.each([
    ['known', 'content-length'],
    ['unknown', 'transfer-encoding'],
  ])(
    'belongs to the operation where it is too long for a problem: its length is %s',
    async (_, field) => {
      const body = JSON.stringify({ code: 'idempotency_in_progress', list: 'x'.repeat(70_000) });
      const value = field === 'content-length' ? String(body.length) : 'chunked';
      const headers = { 'content-type': 'application/json', [field]: value };
      server.runSteps({ status: 409, headers, body });
      let read = 0;
      const { response, tries } = await pay({
        fetch: fetchWithoutStreams({ onText: () => (read += 1) }),
      });
      expect([read, tries, response.headers.get(field)]).toEqual([1, 1, value]);
      expect(await response.text()).toBe(body);
    },
  );
});
