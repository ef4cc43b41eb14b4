import { PassThrough } from 'node:stream';
import { describe, expect, it } from '@jest/globals';
import { idempotentFetch, type IdempotentFetchOptions } from 'nestjs-idempotency/client';
import { fetchWithoutStreams } from '../../support/fetch-without-streams.js';
import { problem, ScriptedServer, type Step } from '../../support/scripted-server.js';
import { useServer } from '../../support/use-server.js';

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

describe('an answer without a stream', () => {
  it("is the operation's, to be read", async () => {
    server.play(replay);
    const { response, replayed } = await pay();
    expect([await response.json(), replayed]).toEqual([{ charge: 1 }, true]);
  });

  it.each<[string, Step]>([
    ['breaks off', 'break off in the body'],
    ['says that the first one is in progress', problem(409, 'in-progress', '0')],
    ['says that the store is unreachable', problem(503, 'store-unavailable', '0')],
  ])('is followed by another try where it %s', async (_, step) => {
    server.play(step, step, replay);
    expect(await pay()).toMatchObject({ response: { status: 201 }, replayed: true, tries: 3 });
  });

  it.each([
    [400, 'key-missing'],
    [409, 'outcome-unknown'],
    [409, 'response-not-kept'],
    [422, 'key-reused'],
  ])("is no answer of the operation's where it is %i %s", async (status, slug) => {
    server.play(problem(status, slug));
    await expect(pay()).rejects.toMatchObject({
      name: 'IdempotencyProblemError',
      code: `idempotency_${slug.replaceAll('-', '_')}`,
      retryable: false,
      tries: 1,
    });
  });

  it('is understood where Node has a stream of its own kind', async () => {
    server.play(problem(409, 'in-progress', '0'), replay);
    const fetch = fetchWithoutStreams({ body: new PassThrough() });
    expect(await pay({ fetch })).toMatchObject({ replayed: true, tries: 2 });
  });

  it.each([
    ['its length is told, and it is not looked into', 'content-length', 1],
    ['its text is', 'transfer-encoding', 2],
  ])("is the operation's where it is too long for a problem: %s", async (_, field, texts) => {
    const body = JSON.stringify({ code: 'idempotency_in_progress', list: 'x'.repeat(70_000) });
    const value = field === 'content-length' ? String(body.length) : 'chunked';
    const headers = { 'content-type': 'application/json', [field]: value };
    server.play({ status: 409, headers, body });
    let read = 0;
    const { response, tries } = await pay({
      fetch: fetchWithoutStreams({ onText: () => (read += 1) }),
    });
    // The first is that of the whole answer, whatever it is.
    expect([read, tries, response.headers.get(field)]).toEqual([texts, 1, value]);
    expect(await response.text()).toBe(body);
  });
});
