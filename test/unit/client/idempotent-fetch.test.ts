import { describe, expect, it } from '@jest/globals';
import {
  idempotentFetch,
  IdempotencyProblemError,
  IdempotentFetchError,
  type IdempotentFetchOptions,
} from 'nestjs-idempotency-client';
import { problem, ScriptedServer, type Step } from '../../support/http/wire/scripted-server.js';
import { useServer } from '../../support/servers/use-server.js';

const created: Step = { status: 201, headers: { 'x-charge': '1' }, body: '{"charge":1}' };
const replay: Step = { ...created, headers: { 'idempotent-replayed': 'true' } };

const server = useServer(() => ScriptedServer.start());

function pay(options: IdempotentFetchOptions = {}) {
  const init = { method: 'POST', body: '{"amount":1200}' };
  return idempotentFetch(server.url, init, { backoffBase: 1, backoffCap: 1, ...options });
}

async function failure(call: Promise<unknown>): Promise<IdempotentFetchError> {
  const error: unknown = await call.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof IdempotentFetchError)) throw new Error('It did not fail as expected');
  return error;
}

describe('the response', () => {
  it('is the first one where it arrives, and says so', async () => {
    server.runSteps(created);
    const { response, key, replayed, tries } = await pay();
    expect([response.status, response.headers.get('x-charge')]).toEqual([201, '1']);
    expect([response.url, await response.json()]).toEqual([server.url, { charge: 1 }]);
    expect({ replayed, tries }).toEqual({ replayed: false, tries: 1 });
    expect(server.requests[0]!.headers['idempotency-key']).toBe(`"${key}"`);
  });

  it("recognizes a replay by the marker, under the API's name for it", async () => {
    server.runSteps(replay);
    expect((await pay()).replayed).toBe(true);
    expect((await pay({ replayHeader: 'X-Replayed' })).replayed).toBe(false);
    server.runSteps({ status: 201, headers: { 'x-replayed': 'true' } });
    expect((await pay({ replayHeader: 'X-Replayed' })).replayed).toBe(true);
  });
});

describe('the key', () => {
  it('is new for every call, and the same for all its attempts', async () => {
    server.runSteps('hang up', problem(409, 'in-progress', '0'), created);
    const first = await pay();
    const second = await pay();
    expect(server.requests.map(({ headers }) => headers['idempotency-key'])).toEqual([
      `"${first.key}"`,
      `"${first.key}"`,
      `"${first.key}"`,
      `"${second.key}"`,
    ]);
    expect(first.key).not.toBe(second.key);
  });

  it("is the given one, as a structured field, under the API's name for it", async () => {
    server.runSteps(created);
    const { key } = await pay({ key: 'order "7"', keyHeader: 'X-Once' });
    expect(key).toBe('order "7"');
    expect(server.requests[0]!.headers['x-once']).toBe('"order \\"7\\""');
  });
});

describe('an attempt', () => {
  it.each<[string, Step]>([
    ['whose connection breaks', 'hang up'],
    ['whose response breaks off in the body', 'break off in the body'],
    ['that finds the first one in progress', problem(409, 'in-progress', '0')],
    ["that gets a gateway's 503", { status: 503, body: 'no upstream' }],
    ['that gets 408', { status: 408, headers: { connection: 'close' } }],
    ['that gets 425', { status: 425 }],
    ['that gets 429', { status: 429, headers: { 'retry-after': '0' } }],
    ['that gets 500', { status: 500 }],
    ["that gets a gateway's own 520", { status: 520 }],
  ])('%s is followed by another attempt', async (_, step) => {
    server.runSteps(step, step, replay);
    expect(await pay()).toMatchObject({ response: { status: 201 }, replayed: true, tries: 3 });
    expect(server.requests).toHaveLength(3);
    expect(new Set(server.requests.map(({ body }) => body.toString()))).toEqual(
      new Set(['{"amount":1200}']),
    );
  });

  it.each([200, 204, 400, 401, 402, 403, 404, 409, 410, 412, 422, 451, 501, 505])(
    'that gets %i from the operation is the last one',
    async (status) => {
      server.runSteps({ status }, created);
      expect(await pay()).toMatchObject({ response: { status }, replayed: false, tries: 1 });
      expect(server.requests).toHaveLength(1);
    },
  );

  it.each([500, 503, 408, 429])('that gets a replayed %i is the last one', async (status) => {
    server.runSteps({ status, headers: { 'idempotent-replayed': 'true' } }, created);
    expect(await pay()).toMatchObject({ response: { status }, replayed: true, tries: 1 });
  });

  it.each([500, 502, 504])(
    'that gets %i is the last one where retries on 5xx are disabled',
    async (status) => {
      server.runSteps({ status }, created);
      expect(await pay({ retryServerErrors: false })).toMatchObject({ response: { status } });
      expect(server.requests).toHaveLength(1);
    },
  );

  // 511 is of a network that wants a login, and has not passed the request on.
  it.each([503, 511])('that gets %i is followed by another one even then', async (status) => {
    server.runSteps({ status }, created);
    expect(await pay({ retryServerErrors: false })).toMatchObject({ tries: 2 });
  });

  it.each([425, 429])(
    'that gets %i is the last one where its retry is disabled',
    async (status) => {
      server.runSteps({ status }, created);
      expect(await pay({ retryThrottled: false })).toMatchObject({
        response: { status },
        tries: 1,
      });
    },
  );

  it.each(['APPLICATION/JSON ;charset="utf-8"', 'application/vnd.failure+json'])(
    'that gets a conflict, as %s, is followed by another one',
    async (type) => {
      const step = problem(409, 'in-progress', '0');
      server.runSteps({ ...step, headers: { ...step.headers, 'content-type': type } }, replay);
      expect(await pay()).toMatchObject({ response: { status: 201 }, replayed: true, tries: 2 });
    },
  );

  it.each(['text/html', 'text/plain', 'application/jsonp', 'application/json-seq', ''])(
    'that gets 409 as %j is the last one, whatever the document says',
    async (type) => {
      const step = problem(409, 'in-progress', '0');
      server.runSteps({ ...step, headers: { 'content-type': type } }, created);
      expect(await pay()).toMatchObject({ response: { status: 409 }, tries: 1 });
    },
  );

  it('that gets a document too long for a problem is the last one, and its body is readable', async () => {
    const headers = { 'content-type': 'application/json' };
    const body = JSON.stringify({ code: 'idempotency_in_progress', list: 'x'.repeat(70_000) });
    server.runSteps({ status: 409, headers, body }, created);
    const { response, tries } = await pay();
    expect([tries, await response.text()]).toEqual([1, body]);
  });

  it('that gets the replay of a problem forwarded by the operation is the last one', async () => {
    const step = problem(409, 'in-progress', '0');
    server.runSteps(
      { ...step, headers: { ...step.headers, 'idempotent-replayed': 'true' } },
      created,
    );
    const { response, replayed } = await pay();
    expect([response.status, replayed]).toEqual([409, true]);
  });

  it("that gets a problem document of the operation's own is the last one", async () => {
    const headers = { 'content-type': 'application/problem+json' };
    const body = JSON.stringify({ type: 'about:blank', status: 409, code: 'seat_taken' });
    server.runSteps({ status: 409, headers, body }, created);
    const { response } = await pay();
    expect(await response.json()).toMatchObject({ code: 'seat_taken' });
  });

  it('that succeeds is the last one, whatever its document says', async () => {
    server.runSteps({ ...problem(409, 'in-progress', '0'), status: 200 });
    expect(await pay()).toMatchObject({ response: { status: 200 }, tries: 1 });
  });

  it.each(['', 'no JSON', 'null', '7', '[]', '{"code":7}'])(
    'that gets a document without a problem is the last one: %j',
    async (body) => {
      server.runSteps({
        status: 409,
        headers: { 'content-type': 'application/problem+json' },
        body,
      });
      const { response } = await pay();
      expect(await response.text()).toBe(body);
    },
  );
});

describe('a rejection by the library', () => {
  it('is thrown after one attempt if it is final', async () => {
    server.runSteps(problem(422, 'key-reused'), created);
    const error = await failure(pay({ key: 'order-7' }));
    expect(error).toBeInstanceOf(IdempotencyProblemError);
    expect(error).toMatchObject({
      name: 'IdempotencyProblemError',
      message: '422 The title of key-reused',
      code: 'idempotency_key_reused',
      status: 422,
      retryable: false,
      type: 'https://example.com/problems/key-reused',
      title: 'The title of key-reused',
      detail: 'What to do about key-reused.',
      key: 'order-7',
      tries: 1,
    });
    expect(await error.response!.json()).toMatchObject({ status: 422 });
  });

  it.each([
    ['by its code', { code: 'idempotency_key_reused' }, false],
    ['by the code of a newer server', { code: 'idempotency_of_the_future' }, true],
    ['as it says', { code: 'idempotency_key_reused', retryable: true }, true],
  ])('is retryable or not: %s', async (_, document, retryable) => {
    const headers = { 'content-type': 'application/json' };
    server.runSteps({ status: 422, headers, body: JSON.stringify(document) });
    expect(await failure(pay())).toMatchObject({ retryable, title: '', tries: 1 });
  });

  it('is thrown when every attempt got it', async () => {
    server.runSteps(problem(503, 'store-unavailable', '0'));
    const error = await failure(pay({ maxTries: 3 }));
    expect(error).toBeInstanceOf(IdempotencyProblemError);
    expect(error).toMatchObject({ status: 503, retryable: true, tries: 3 });
    expect(server.requests).toHaveLength(3);
  });
});

describe('the last attempt', () => {
  it('throws the cause of the failure, with the key', async () => {
    server.runSteps('hang up');
    const error = await failure(pay({ key: 'order-7', maxTries: 2 }));
    expect(error).toMatchObject({
      name: 'IdempotentFetchError',
      code: 'idempotency_fetch_tries_exhausted',
      cause: { message: 'fetch failed' },
      retryable: true,
      key: 'order-7',
      tries: 2,
    });
    expect(error.response).toBeUndefined();
  });

  it('throws the last response if it is not final, readable', async () => {
    server.runSteps({ status: 502, body: 'bad gateway' });
    const error = await failure(pay({ maxTries: 2 }));
    expect(error).toMatchObject({ code: 'idempotency_fetch_tries_exhausted', tries: 2 });
    expect([error.response!.status, await error.response!.text()]).toEqual([502, 'bad gateway']);
    expect(error).not.toHaveProperty('cause');
  });
});

describe('an error', () => {
  it('shows neither key nor response when printed', async () => {
    const { inspect } = await import('node:util');
    for (const step of [problem(422, 'key-reused'), { status: 502, body: 'secret' }]) {
      server.runSteps(step);
      const error = await failure(pay({ key: 'order-7', maxTries: 1 }));
      const shown = inspect(error, { depth: 10 }) + JSON.stringify(error) + String(error);
      expect(shown).toContain('idempotency_');
      expect(shown).not.toMatch(/order-7|Response \{|secret/);
    }
  });
});

/** The global fetch, whose responses have another value of one member. */
function fetchWith(member: 'type' | 'redirected', value: unknown): typeof fetch {
  return async (...args) =>
    new Proxy(await fetch(...args), {
      get(target, name) {
        if (name === member) return value;
        const other: unknown = Reflect.get(target, name, target);
        return typeof other === 'function' ? (other.bind(target) as unknown) : other;
      },
    });
}

describe('a redirect', () => {
  const to = (status: number, location = '/login'): Step => ({ status, headers: { location } });
  const page: Step = {
    status: 200,
    headers: { 'content-type': 'text/html' },
    body: '<h1>Log in</h1>',
  };

  it.each([301, 302, 303, 307, 308])(
    'by %i to a page of another address is no final response',
    async (status) => {
      server.runSteps(to(status), page, to(status), page);
      const error = await failure(pay());
      expect(error).toMatchObject({ code: 'idempotency_fetch_redirected', retryable: true });
      expect([error.tries, error.response?.status]).toEqual([2, 200]);
      expect(error.message).toMatch(/^Redirects led to another address after 2 requests/);
    },
  );

  it('is what ended the call that has no other try', async () => {
    server.runSteps(to(302), page);
    expect(await failure(pay({ maxTries: 1 }))).toMatchObject({
      code: 'idempotency_fetch_redirected',
      tries: 1,
    });
  });

  it.each([307, 308])('by %i, which keeps method and key, leads to the replay', async (status) => {
    server.runSteps(to(status, '/v2'), created, to(status, '/v2'), replay);
    expect(await pay()).toMatchObject({ replayed: true, tries: 2, response: { status: 201 } });
    const keys = server.requests.map(({ method, path, headers, body }) =>
      [method, path, headers['idempotency-key'], body.toString()].join(' '),
    );
    expect(new Set(keys.filter((key) => key.startsWith('POST /v2')))).toHaveProperty('size', 1);
    expect(keys).toHaveLength(4);
  });

  it('to a problem of the library, or to a gateway that fails, is followed as without it', async () => {
    const moved = to(307, '/v2');
    server.runSteps(moved, problem(409, 'in-progress', '0'), moved, { status: 503 }, moved, replay);
    expect(await pay()).toMatchObject({ replayed: true, tries: 3 });
    server.runSteps(moved, problem(422, 'key-reused'));
    expect(await failure(pay())).toMatchObject({ code: 'idempotency_key_reused', tries: 1 });
  });

  it('that is not followed is the response: the operation may redirect itself', async () => {
    server.runSteps(to(303, '/payments/1'));
    const init = { method: 'POST', redirect: 'manual' as const };
    const { response } = await idempotentFetch(server.url, init);
    expect([response.status, response.headers.get('location')]).toEqual([303, '/payments/1']);
  });

  it('that a browser hides is no response', async () => {
    server.runSteps(created);
    const hidden = fetchWith('type', 'opaqueredirect');
    expect(await failure(pay({ fetch: hidden }))).toMatchObject({
      code: 'idempotency_fetch_redirected',
    });
  });

  it('is known by its address where a response does not tell', async () => {
    const withoutRedirected = fetchWith('redirected', undefined);
    server.runSteps(to(302), page, to(302), page);
    expect(await failure(pay({ fetch: withoutRedirected }))).toMatchObject({
      code: 'idempotency_fetch_redirected',
    });
    server.runSteps(created);
    expect(await pay({ fetch: withoutRedirected })).toMatchObject({ tries: 1 });
    const asked = idempotentFetch(
      `${server.url}#fragment`,
      { method: 'POST' },
      { fetch: withoutRedirected },
    );
    expect(await asked).toMatchObject({ tries: 1 });
  });
});

describe('the mode "no-cors"', () => {
  it('is refused before anything is sent: browsers leave out the key then', async () => {
    server.runSteps(created);
    const init = { method: 'POST', mode: 'no-cors' as const };
    await expect(idempotentFetch(server.url, init)).rejects.toThrow(/Idempotency-Key/);
    await expect(idempotentFetch(new Request(server.url, init))).rejects.toThrow(TypeError);
    expect(server.requests).toHaveLength(0);
  });
});
