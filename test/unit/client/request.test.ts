import { execFile } from 'node:child_process';
import { getEventListeners } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { transform } from '@swc/core';
import fc from 'fast-check';
import {
  IdempotencyProblemError,
  idempotentFetch,
  type IdempotentFetchError,
  type IdempotentFetchOptions,
  newIdempotencyKey,
} from 'nestjs-idempotency-client';
import { parseItem } from 'structured-headers';
import { driveTimers } from '../../support/clocks/driven-time.js';
import { fetchWithoutStreams } from '../../support/http/wire/fetch-without-streams.js';
import { problem, ScriptedServer, type Step } from '../../support/http/wire/scripted-server.js';
import {
  abortable,
  fullJitterMs,
  idempotencyKeyField,
  retryAfterMs,
} from '../../support/internals/client.js';
import { parseKey } from '../../support/internals/transports-common.js';
import { projectRoot } from '../../support/project-root.js';
import { useServer } from '../../support/servers/use-server.js';

const server = useServer(() => ScriptedServer.start());

describe('abortable work', () => {
  it.each([
    ['completes', () => Promise.resolve(1)],
    ['fails', () => Promise.reject(new Error('broken'))],
  ])('leaves no listener behind when it %s', async (_, work) => {
    const { signal } = new AbortController();
    const result = abortable(work(), signal);
    expect(getEventListeners(signal, 'abort')).toHaveLength(1);
    await Promise.allSettled([result]);
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
  });
});

const printable = fc.string({
  unit: fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code)),
  minLength: 1,
  maxLength: 255,
});

describe('a new key', () => {
  it('is a version 4 UUID, a new one each time, random in every digit that is not fixed', () => {
    const keys = Array.from({ length: 1_000 }, newIdempotencyKey);
    for (const key of keys) {
      expect(key).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    }
    expect(new Set(keys).size).toBe(1_000);
    const plain = keys.map((key) => key.replaceAll('-', ''));
    const digits = Array.from({ length: 32 }, (_, at) => new Set(plain.map((key) => key[at])).size);
    expect(digits).toEqual(digits.map((_, at) => (at === 12 ? 1 : at === 16 ? 4 : 16)));
  });
});

describe('the header field with the key', () => {
  it('is a structured-field String that the server reads as the same key', () => {
    fc.assert(
      fc.property(printable, (key) => {
        const field = idempotencyKeyField(key);
        expect(parseItem(field)[0]).toBe(key);
        expect(parseKey(field, 'strict', 255)).toBe(key);
      }),
      { numRuns: 1_000 },
    );
  });

  it.each(['', 'schlüssel', 'a\tb', 'a\r\nX-Admin: 1', '\u{1F511}', 7, null])(
    'rejects %j',
    (key) => {
      expect(() => idempotencyKeyField(key as string)).toThrow(TypeError);
    },
  );
});

describe('limits', () => {
  const created = { status: 201 };
  const unlimited = { deadline: Infinity, tryTimeout: Infinity };

  /** Resolves as soon as exactly this many timers are pending. */
  async function untilTimers(count: number): Promise<void> {
    while (jest.getTimerCount() !== count) await new Promise((resolve) => setImmediate(resolve));
  }

  beforeEach(() => driveTimers(false));
  afterEach(() => void jest.useRealTimers());

  function pay(options: IdempotentFetchOptions, signal?: AbortSignal) {
    const init = { method: 'POST', body: '{}', ...(signal && { signal }) };
    return idempotentFetch(server.url, init, { key: 'order-7', random: () => 0.5, ...options });
  }

  const failure = (call: Promise<unknown>) =>
    call.then(
      () => Promise.reject(new Error('It did not fail')),
      (error: unknown) => error as IdempotentFetchError,
    );

  describe('a pause', () => {
    /** Milliseconds of the next pause. */
    async function pausedFor(ms: number): Promise<void> {
      await untilTimers(1);
      jest.advanceTimersByTime(ms - 1);
      expect(jest.getTimerCount()).toBe(1);
      jest.advanceTimersByTime(1);
      expect(jest.getTimerCount()).toBe(0);
    }

    it('is drawn from a step that doubles up to the cap', async () => {
      server.runSteps(...Array.from({ length: 6 }, () => ({ status: 503 })), created);
      const options = { ...unlimited, backoffBase: 200, backoffCap: 2_000 };
      const call = pay(options);
      for (const ms of [100, 200, 400, 800, 1_000, 1_000]) await pausedFor(ms);
      expect(await call).toMatchObject({ tries: 7 });
    });

    it.each([
      ['500', { status: 500, headers: { 'retry-after': '3' } }],
      ['409 in progress', problem(409, 'in-progress', '3')],
    ])('adds what Retry-After asks for, with %s', async (_, step) => {
      server.runSteps(step, created);
      const call = pay({ ...unlimited, backoffBase: 200 });
      await pausedFor(3_100);
      expect(await call).toMatchObject({ tries: 2 });
    });
  });

  describe('the deadline', () => {
    it('ends a request', async () => {
      server.runSteps('stay silent');
      const call = failure(pay({ deadline: 5_000, tryTimeout: Infinity }));
      await server.received(1);
      jest.advanceTimersByTime(4_999);
      expect(jest.getTimerCount()).toBe(1);
      jest.advanceTimersByTime(1);
      const error = await call;
      expect(error).toMatchObject({
        name: 'IdempotentFetchError',
        code: 'idempotency_fetch_deadline',
        key: 'order-7',
        tries: 1,
        retryable: true,
      });
      expect(error.response).toBeUndefined();
      expect(jest.getTimerCount()).toBe(0);
    });

    it('ends the call before a pause that does not fit, and throws the last response', async () => {
      server.runSteps(problem(409, 'in-progress', '5'));
      const error = await failure(pay({ deadline: 5_000 }));
      expect(error).toMatchObject({ code: 'idempotency_fetch_deadline', key: 'order-7', tries: 1 });
      expect(error.cause).toBeInstanceOf(IdempotencyProblemError);
      expect(error.cause).toMatchObject({ code: 'idempotency_in_progress' });
      expect(error.response!.status).toBe(409);
      expect(jest.getTimerCount()).toBe(0);
    });

    it('covers all attempts and pauses together', async () => {
      server.runSteps('hang up', 'stay silent');
      const options = { deadline: 5_000, tryTimeout: Infinity, backoffBase: 4_000 };
      const call = failure(pay(options));
      await untilTimers(2);
      jest.advanceTimersByTime(2_000);
      await server.received(2);
      jest.advanceTimersByTime(2_999);
      expect(jest.getTimerCount()).toBe(1);
      jest.advanceTimersByTime(1);
      expect(await call).toMatchObject({
        code: 'idempotency_fetch_deadline',
        tries: 2,
        cause: { message: 'fetch failed' },
      });
    });

    it('ends the reading of a stream', async () => {
      const body = new ReadableStream();
      const init = { method: 'POST', body, duplex: 'half' } as RequestInit;
      const call = failure(
        idempotentFetch(server.url, init, { deadline: 5_000, bufferStream: true }),
      );
      jest.advanceTimersByTime(5_000);
      expect(await call).toMatchObject({ code: 'idempotency_fetch_deadline', tries: 0 });
    });
  });

  describe('the timeout of one attempt', () => {
    it('makes an attempt that takes longer a lost one', async () => {
      server.runSteps('stay silent', created);
      const call = pay({ deadline: Infinity, tryTimeout: '700ms', backoffBase: '1ms' });
      await server.received(1);
      jest.advanceTimersByTime(699);
      expect(server.requests).toHaveLength(1);
      jest.advanceTimersByTime(1);
      expect(jest.getTimerCount()).toBe(0);
      await untilTimers(1);
      jest.advanceTimersByTime(1);
      expect(await call).toMatchObject({ tries: 2 });
    });

    it('ends the last attempt, even of a fetch that ignores its signal', async () => {
      const deaf = () => new Promise<Response>(() => undefined);
      const call = failure(pay({ tryTimeout: '700ms', maxTries: 1, fetch: deaf }));
      await untilTimers(2);
      jest.advanceTimersByTime(700);
      expect(await call).toMatchObject({
        code: 'idempotency_fetch_tries_exhausted',
        cause: { name: 'TimeoutError', message: 'No response within 700 ms.' },
      });
    });
  });

  describe("the caller's signal", () => {
    const reason = new Error('The page was left');

    it('ends a request', async () => {
      server.runSteps('stay silent');
      const controller = new AbortController();
      const call = failure(pay(unlimited, controller.signal));
      await server.received(1);
      controller.abort(reason);
      const error = await call;
      expect(error).toMatchObject({
        name: 'IdempotentFetchError',
        code: 'idempotency_fetch_aborted',
        key: 'order-7',
        tries: 1,
        retryable: true,
      });
      expect(error.cause).toBe(reason);
    });

    it('ends a pause', async () => {
      server.runSteps({ status: 503, headers: { 'retry-after': '30' } });
      const controller = new AbortController();
      const call = failure(pay(unlimited, controller.signal));
      await untilTimers(1);
      controller.abort(reason);
      const error = await call;
      expect(error).toMatchObject({ code: 'idempotency_fetch_aborted', tries: 1 });
      expect([error.cause, error.response!.status]).toEqual([reason, 503]);
      expect(jest.getTimerCount()).toBe(0);
    });

    it('prevents any request if already aborted', async () => {
      server.runSteps(created);
      const error = await failure(pay(unlimited, AbortSignal.abort(reason)));
      expect(error).toMatchObject({ code: 'idempotency_fetch_aborted', tries: 0, key: 'order-7' });
      expect(server.requests).toHaveLength(0);
    });

    it('may be that of a Request', async () => {
      server.runSteps('stay silent');
      const controller = new AbortController();
      const request = new Request(server.url, { method: 'POST', signal: controller.signal });
      const call = failure(idempotentFetch(request, {}, unlimited));
      await server.received(1);
      controller.abort(reason);
      expect(await call).toMatchObject({ code: 'idempotency_fetch_aborted', cause: reason });
    });

    it('does not hide that the deadline came first', async () => {
      server.runSteps('stay silent');
      const controller = new AbortController();
      const call = failure(pay({ deadline: 5_000 }, controller.signal));
      await server.received(1);
      jest.advanceTimersByTime(5_000);
      controller.abort(reason);
      expect(await call).toMatchObject({ code: 'idempotency_fetch_deadline' });
    });

    it('of a Request is ignored when the caller passes null', async () => {
      server.runSteps(created);
      const request = new Request(server.url, {
        method: 'POST',
        signal: AbortSignal.abort(reason),
      });
      expect(await idempotentFetch(request, { signal: null }, unlimited)).toMatchObject({
        tries: 1,
      });
    });

    it('has no listener left after the call', async () => {
      server.runSteps({ status: 503 }, created);
      const { signal } = new AbortController();
      const call = pay({ ...unlimited, backoffBase: 1 }, signal);
      expect(getEventListeners(signal, 'abort')).toHaveLength(1);
      await untilTimers(1);
      jest.advanceTimersByTime(1);
      await call;
      expect(getEventListeners(signal, 'abort')).toHaveLength(0);
    });
  });
});

const timeoutMs: IdempotentFetchOptions = { backoffBase: 1, backoffCap: 1 };

/** What the server receives of one call, in three attempts. */
async function sent(input: string | URL | Request, init?: RequestInit, options = {}) {
  server.runSteps('hang up', { status: 503 }, { status: 201 });
  await idempotentFetch(input, init, { ...timeoutMs, ...options });
  expect(server.requests).toHaveLength(3);
  const [first, second, third] = server.requests.map(({ method, headers, body }) => ({
    method,
    type: headers['content-type'],
    authorization: headers.authorization,
    length: headers['content-length'],
    text: body.toString('latin1'),
  }));
  expect(second).toEqual(first);
  expect(third).toEqual(first);
  return first!;
}

const bytes = Uint8Array.from([0, 1, 128, 255]);
const asText = '\x00\x01\x80\xff';

describe('a body is sent again unchanged:', () => {
  it.each<[string, RequestInit['body'], string, string | undefined]>([
    ['a string', '{"a":"ü"}', '{"a":"\xc3\xbc"}', 'text/plain;charset=UTF-8'],
    ['a part of a buffer', new Uint8Array(bytes.buffer, 1, 2), '\x01\x80', undefined],
    ['a Blob', new Blob([bytes], { type: 'image/png' }), asText, 'image/png'],
    ['no body', undefined, '', undefined],
    ['null', null, '', undefined],
    ['an empty string', '', '', 'text/plain;charset=UTF-8'],
  ])('%s', async (_, body, text, type) => {
    const init = body === undefined ? { method: 'POST' } : { method: 'POST', body };
    expect(await sent(server.url, init)).toMatchObject({ method: 'POST', text, type });
  });

  it('FormData, with the same boundary each time', async () => {
    const body = new FormData();
    body.set('amount', '1200');
    body.set('receipt', new Blob([bytes], { type: 'image/png' }), 'receipt.png');
    const { type, text } = await sent(server.url, { method: 'POST', body });
    const [, boundary] = /^multipart\/form-data; boundary=(.+)$/.exec(type!)!;
    expect(text.split(`--${boundary!}`)).toHaveLength(4);
    expect(text).toContain(asText);
  });

  it('later changes by the caller have no effect', async () => {
    const array = Uint8Array.from(bytes);
    const form = new URLSearchParams({ amount: '1200' });
    const headers = new Headers({ authorization: 'Bearer a' });
    const url = new URL(server.url);
    const init: RequestInit = { method: 'POST', body: array, headers };
    const ofBytes = sent(url, init);
    array.fill(7);
    headers.set('authorization', 'Bearer b');
    url.port = '1';
    init.method = 'PUT';
    expect(await ofBytes).toMatchObject({
      method: 'POST',
      text: asText,
      authorization: 'Bearer a',
    });

    const ofForm = sent(server.url, { method: 'POST', body: form });
    form.set('amount', '1');
    expect(await ofForm).toMatchObject({ text: 'amount=1200' });
  });

  it("the caller's own content type", async () => {
    const headers = { 'Content-Type': 'application/json' };
    const { type } = await sent(server.url, { method: 'POST', body: '{}', headers });
    expect(type).toBe('application/json');
  });

  it("a Request's", async () => {
    const headers = { authorization: 'Bearer a', 'content-type': 'application/json' };
    const request = new Request(server.url, { method: 'PUT', body: '{"a":1}', headers });
    expect(await sent(request)).toEqual({
      method: 'PUT',
      type: 'application/json',
      authorization: 'Bearer a',
      length: '7',
      text: '{"a":1}',
    });
  });

  it('the one that replaces that of a Request', async () => {
    const request = new Request(server.url, { method: 'PUT', body: '{"a":1}' });
    expect(await sent(request, { body: '{"a":2}' })).toMatchObject({ text: '{"a":2}' });
  });

  it('none where a Request has none', async () => {
    const { text, length } = await sent(new Request(server.url, { method: 'DELETE' }));
    expect([text, length]).toEqual(['', undefined]);
    expect(await sent(new Request(server.url))).toMatchObject({ method: 'GET', text: '' });
  });
});

describe('a stream', () => {
  const stream = () => new Blob(['a', 'stream']).stream();
  async function* chunks() {
    yield Buffer.from('a');
    yield Buffer.from('stream');
  }

  it.each([
    ['a ReadableStream', stream],
    ['an async iterable', chunks],
  ])('is rejected before anything is sent: %s', async (_, make) => {
    server.runSteps({ status: 201 });
    const init = { method: 'POST', body: make(), duplex: 'half' } as RequestInit;
    await expect(idempotentFetch(server.url, init)).rejects.toThrow(
      'A stream can be sent only once, but idempotentFetch may have to retry it. Pass the body as a string, bytes, Blob, FormData or URLSearchParams, or set bufferStream: true.',
    );
    expect(server.requests).toHaveLength(0);
  });

  it('is read into memory with bufferStream', async () => {
    const init = { method: 'POST', body: stream(), duplex: 'half' } as RequestInit;
    expect(await sent(server.url, init, { bufferStream: true })).toMatchObject({ text: 'astream' });
  });
});

describe('an invalid call', () => {
  it.each<[string, string | Request, RequestInit, object, RegExp]>([
    ['no URL', 'not a URL', {}, {}, /URL/],
    [
      'a key among the headers',
      'http://127.0.0.1/',
      { headers: { 'idempotency-key': 'k' } },
      {},
      /pass the key as its option "key"/,
    ],
    [
      'a misspelt option',
      'http://127.0.0.1/',
      {},
      { maxTrys: 3 },
      /"maxTrys" is not an option .*maxTries/,
    ],
    ['no tries', 'http://127.0.0.1/', {}, { maxTries: 0 }, /"maxTries".* from 1.* is 0/],
    ['half a try', 'http://127.0.0.1/', {}, { maxTries: 1.5 }, /"maxTries".*is 1.5/],
    ['no time', 'http://127.0.0.1/', {}, { deadline: 0 }, /"deadline" .*or Infinity.*is 0/],
    ['too much time', 'http://127.0.0.1/', {}, { tryTimeout: 2 ** 31 }, /"tryTimeout".*2147483647/],
    ['endless pauses', 'http://127.0.0.1/', {}, { backoffCap: Infinity }, /"backoffCap"/],
    ['a string for a number', 'http://127.0.0.1/', {}, { deadline: '9' }, /"deadline"/],
    [
      'a string for a flag',
      'http://127.0.0.1/',
      {},
      { retryThrottled: 'no' },
      /"retryThrottled" must be true or false, but it is no/,
    ],
    ['a number for a header', 'http://127.0.0.1/', {}, { keyHeader: 7 }, /"keyHeader".*is 7/],
    ['a string for a function', 'http://127.0.0.1/', {}, { random: '4' }, /"random" .*a function/],
    ['a bad key', 'http://127.0.0.1/', {}, { key: 'ü' }, /printable ASCII/],
  ])('is rejected at once, and not retried: %s', async (_, input, init, options, message) => {
    const call = idempotentFetch(input, init, options);
    await expect(call).rejects.toThrow(message);
    await expect(call).rejects.toMatchObject({ name: 'TypeError' });
  });

  it('treats an option that is undefined as not given', async () => {
    server.runSteps({ status: 503 }, { status: 201 });
    const options = { ...timeoutMs, key: undefined, maxTries: undefined } as object;
    expect(await idempotentFetch(server.url, {}, options)).toMatchObject({ tries: 2 });
  });
});

describe('a fetch function of the caller', () => {
  it('sends the requests and resolves URLs itself', async () => {
    server.runSteps({ status: 503 }, { status: 201 });
    const asked: unknown[] = [];
    const { tries } = await idempotentFetch(
      '/payments',
      { method: 'POST', body: 'x' },
      {
        ...timeoutMs,
        fetch: (input, init) => {
          asked.push(input);
          return fetch(new URL(input, server.url), init);
        },
      },
    );
    expect([tries, asked]).toEqual([2, ['/payments', '/payments']]);
  });
});

const now = Date.parse('Sun, 06 Nov 1994 08:49:07 GMT');

function asked(retryAfter: string, date?: string): number | undefined {
  const headers = new Headers({ 'retry-after': retryAfter });
  if (date !== undefined) headers.set('date', date);
  return retryAfterMs(headers, now);
}

describe('Retry-After', () => {
  it.each([
    ['seconds', '30'],
    ['IMF-fixdate', 'Sun, 06 Nov 1994 08:49:37 GMT'],
    ['the form of RFC 850', 'Sunday, 06-Nov-94 08:49:37 GMT'],
    ['the form of asctime', 'Sun Nov  6 08:49:37 1994'],
  ])('is understood in %s', (_, value) => {
    expect(asked(value)).toBe(30_000);
  });

  it('is the same in every time zone', async () => {
    const source = await readFile(join(projectRoot, 'packages/client/lib/retry-policy.ts'), 'utf8');
    const { code } = await transform(source, { jsc: { parser: { syntax: 'typescript' } } });
    const script = `${code}
      const headers = new Headers({ 'retry-after': 'Sun Nov  6 08:49:37 1994' });
      console.log(retryAfterMs(headers, ${now}))`;
    const flags = ['--input-type=module', '--eval', script];
    const env = { ...process.env, NODE_OPTIONS: '', TZ: 'Asia/Kathmandu' };
    const { stdout } = await promisify(execFile)(process.execPath, flags, { env });
    expect(stdout).toBe('30000\n');
  });

  it("is measured by the server's clock, where the response has a Date", () => {
    const threeHoursOff = 'Sun, 06 Nov 1994 11:49:07 GMT';
    expect(asked('Sun, 06 Nov 1994 11:49:12 GMT', threeHoursOff)).toBe(5_000);
  });

  it('is zero where the date has passed', () => {
    expect(asked('Sun, 06 Nov 1994 08:00:00 GMT')).toBe(0);
  });

  it.each(['', 'soon', '-1', '1.5', '1e3', 'Sun, no such day', '2 s'])(
    'is ignored where it is invalid: "%s"',
    (value) => {
      expect(asked(value)).toBeUndefined();
    },
  );
});

it('the pause between attempts is drawn from the cap, however many there were', () => {
  const settings = { backoffBase: 100, backoffCap: 10_000, random: () => 0.5 };
  for (const tries of [32, 33, 5_000]) expect(fullJitterMs(tries, settings)).toBe(5_000);
});

describe('a response without a stream', () => {
  const replay: Step = {
    status: 201,
    headers: { 'idempotent-replayed': 'true' },
    body: '{"charge":1}',
  };

  function pay(options: IdempotentFetchOptions = {}) {
    const init = { method: 'POST', body: '{"amount":1200}' };
    const fetch = fetchWithoutStreams();
    return idempotentFetch(server.url, init, {
      fetch,
      backoffBase: 1,
      backoffCap: 1,
      ...options,
    });
  }

  it.each<[string, Step]>([
    ['breaks off', 'break off in the body'],
    ['says that the first attempt is in progress', problem(409, 'in-progress', '0')],
  ])('is followed by another attempt where it %s', async (_, step) => {
    server.runSteps(step, step, replay);
    expect(await pay()).toMatchObject({ response: { status: 201 }, replayed: true, tries: 3 });
  });

  it('is read where Node has a stream of its own kind', async () => {
    server.runSteps(problem(409, 'in-progress', '0'), replay);
    const fetch = fetchWithoutStreams({ body: new PassThrough() });
    expect(await pay({ fetch })).toMatchObject({ replayed: true, tries: 2 });
  });

  it('belongs to the operation where it is too long for a problem, and is readable', async () => {
    const body = JSON.stringify({ code: 'idempotency_in_progress', list: 'x'.repeat(70_000) });
    server.runSteps({ status: 409, headers: { 'content-type': 'application/json' }, body });
    let read = 0;
    const { response, tries } = await pay({
      fetch: fetchWithoutStreams({ onText: () => (read += 1) }),
    });
    expect([read, tries]).toEqual([1, 1]);
    expect(await response.text()).toBe(body);
  });
});
