import { describe, expect, it } from '@jest/globals';
import { idempotentFetch, type IdempotentFetchOptions } from 'nestjs-idempotency/client';
import { ScriptedServer } from '../../support/http/wire/scripted-server.js';
import { useServer } from '../../support/servers/use-server.js';

const server = useServer(() => ScriptedServer.start());

const timeoutMs: IdempotentFetchOptions = { backoffBaseMs: 1, backoffCapMs: 1 };

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
    ['bytes', bytes, asText, undefined],
    ['a part of a buffer', new Uint8Array(bytes.buffer, 1, 2), '\x01\x80', undefined],
    ['an ArrayBuffer', bytes.buffer.slice(0), asText, undefined],
    ['a Blob', new Blob([bytes], { type: 'image/png' }), asText, 'image/png'],
    [
      'URLSearchParams',
      new URLSearchParams({ amount: '1 €' }),
      'amount=1+%E2%82%AC',
      'application/x-www-form-urlencoded;charset=UTF-8',
    ],
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

  it.each([
    ['a ReadableStream', stream],
    ['an async iterable', chunks],
  ])('is read into memory with bufferStream: %s', async (_, make) => {
    const init = { method: 'POST', body: make(), duplex: 'half' } as RequestInit;
    expect(await sent(server.url, init, { bufferStream: true })).toMatchObject({ text: 'astream' });
  });
});

describe('an invalid call', () => {
  it.each<[string, string | Request, RequestInit, object, RegExp]>([
    ['no URL', 'not a URL', {}, {}, /URL/],
    ['a body for GET', 'http://127.0.0.1/', { body: 'x' }, {}, /GET/],
    ['a bad header', 'http://127.0.0.1/', { headers: { 'x y': '1' } }, {}, /x y/],
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
    ['no time', 'http://127.0.0.1/', {}, { deadlineMs: 0 }, /"deadlineMs" .*or Infinity.*is 0/],
    [
      'too much time',
      'http://127.0.0.1/',
      {},
      { tryTimeoutMs: 2 ** 31 },
      /"tryTimeoutMs".*2147483647/,
    ],
    ['an invalid pause', 'http://127.0.0.1/', {}, { backoffBaseMs: NaN }, /"backoffBaseMs".*NaN/],
    ['endless pauses', 'http://127.0.0.1/', {}, { backoffCapMs: Infinity }, /"backoffCapMs"/],
    ['a string for a number', 'http://127.0.0.1/', {}, { deadlineMs: '9' }, /"deadlineMs"/],
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
