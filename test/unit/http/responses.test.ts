import { IncomingMessage, type OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { describe, expect, it } from '@jest/globals';
import { ContentNotComparableError } from '../../support/internals/core.js';
import {
  addedHeaders,
  formContent,
  isReplayable,
  type ParsedRequest,
  preferredWaitMs,
  ResponsePatch,
  type ResponseRecorder,
} from '../../support/internals/http.js';
import { fieldLines, fieldValue, keyInLines } from '../../support/internals/transports-common.js';

/** The fields as multer leaves them, where Nest does not close the gaps in its arrays. */
function fieldsOf(
  fields: object,
  select = (members: unknown): unknown => members,
): Promise<string> {
  return formContent({ body: Object.assign(Object.create(null), fields) }, select, false);
}

function arrayWith(values: Record<string, string>): unknown[] {
  return Object.assign([], values);
}

describe('the fields of a form', () => {
  it('are rejected when circular, before any selection loops', async () => {
    const fields = { note: 'a note', parts: {} };
    fields.parts = { fields, others: [fields, fields] };
    let selections = 0;
    const content = fieldsOf(fields, () => (selections += 1));
    await expect(content).rejects.toBeInstanceOf(ContentNotComparableError);
    expect(selections).toBe(0);
  });
});

describe('the arrays of a form', () => {
  it('may have a few holes, which count', async () => {
    const contents = await Promise.all([
      fieldsOf({ rows: arrayWith({ 2: 'a', 9: 'b' }) }),
      fieldsOf({ rows: arrayWith({ 2: 'a', 8: 'b' }) }),
      fieldsOf({ rows: ['a', 'b'] }),
    ]);
    expect(new Set(contents).size).toBe(3);
  });

  it.each([
    ['one that ends far beyond its values', { rows: arrayWith({ 4_294_967_294: 'a' }) }],
    ['one inside another', { rows: [{ cells: arrayWith({ 20_000: 'a' }) }] }],
    ['many small ones', { rows: Array.from({ length: 20 }, () => arrayWith({ 999: 'a' })) }],
    ['a value beyond the greatest index', { rows: arrayWith({ 0: 'a', 99_999_999_999: 'b' }) }],
    ['no value but that one', { rows: arrayWith({ 99_999_999_999: 'b' }) }],
  ])('are rejected with more: %s', async (_, fields) => {
    await expect(fieldsOf(fields)).rejects.toBeInstanceOf(ContentNotComparableError);
  });

  it('may be as long as they have values', async () => {
    const rows = Array.from({ length: 150_000 }, (_, index) => String(index));
    expect((await fieldsOf({ rows })).includes('"149999"')).toBe(true);
  });
});

const path = import.meta.filename;
const parsed = { path, name: 'a.txt', type: 'text/plain', size: 7 };

function contentOf(request: ParsedRequest, isMulterBound = false): Promise<string> {
  return formContent(request, (members) => members, isMulterBound);
}

describe('a form that a parser other than multer has parsed', () => {
  it.each<[string, ParsedRequest]>([
    ['express-formidable', { files: { file: parsed } }],
    ['express-formidable, of several files', { files: { file: [parsed, parsed] } }],
    [
      'connect-multiparty',
      {
        body: { note: 'a note' },
        files: { file: { ...parsed, fieldName: 'file', originalFilename: 'a.txt' } },
      },
    ],
    [
      'express-fileupload',
      { body: { note: 'a note' }, files: { file: { name: 'a.txt', data: Buffer.from('x') } } },
    ],
    ['one that names the field alone', { body: {}, files: [{ ...parsed, fieldname: 'file' }] }],
    ['one that names the file alone', { body: {}, file: { ...parsed, originalname: 'a.txt' } }],
    [
      'one that leaves no fields',
      { files: [{ ...parsed, fieldname: 'file', originalname: 'a.txt' }] },
    ],
    ['one that found no files', { body: { note: 'a note' }, files: {} }],
  ])('is rejected: %s', async (_, request) => {
    await expect(contentOf(request)).rejects.toBeInstanceOf(ContentNotComparableError);
  });
});

describe('a form without files', () => {
  class OrderDto {
    note = 'a note';
  }

  it('is recognized as parsed by its body, by its empty list, or by an earlier interceptor', async () => {
    const bare = Object.assign(Object.create(null) as object, { note: 'a note' });
    const contents = await Promise.all([
      contentOf({ body: bare }),
      contentOf({ body: new OrderDto(), files: [] }),
      contentOf({ body: new OrderDto() }, true),
    ]);
    expect(new Set(contents)).toEqual(new Set(['[{"note":"a note"},{}]']));
  });

  it('is not recognized as parsed where there is only an object', async () => {
    const content = contentOf({ body: new OrderDto() });
    await expect(content).rejects.toBeInstanceOf(ContentNotComparableError);
  });

  it('is not recognized as parsed where the body is not an object', async () => {
    for (const body of [undefined, null, 'text']) {
      await expect(contentOf({ body }, true)).rejects.toBeInstanceOf(ContentNotComparableError);
    }
  });
});

describe('a form on Fastify, by keys and values', () => {
  const contentOfBody = (body: object) => contentOf({ body, isMultipart: () => true });

  it('distinguishes a value from a list of one, values and files alike', async () => {
    const file = Buffer.from('content');
    const bodies = [{ a: 5 }, { a: [5] }, { a: [[5]] }, { a: null }, { a: [null] }];
    const contents = await Promise.all([...bodies, { a: file }, { a: [file] }].map(contentOfBody));
    expect(new Set(contents).size).toBe(7);
  });
});

const linesOf = (rawHeaders: readonly string[] | undefined, headers?: Record<string, unknown>) =>
  fieldLines(rawHeaders, headers, 'idempotency-key');

describe('the lines of a field', () => {
  const raw = [
    'Host',
    'a',
    'IDEMPOTENCY-KEY',
    'one',
    'X-Idempotency-Key',
    'no',
    'idempotency-key',
    'two',
  ];

  it('are found in any case, each of them, in their order', () => {
    expect(linesOf(raw)).toEqual(['one', 'two']);
  });

  it('are none where the name is only a value or part of a name', () => {
    expect(linesOf(['Accept', 'idempotency-key', 'Idempotency-Key-2', 'x'])).toEqual([]);
    expect(linesOf([])).toEqual([]);
    expect(linesOf(undefined)).toEqual([]);
  });

  it('are kept unchanged', () => {
    expect(fieldLines(['k', '"a", "b"', 'K', ''], undefined, 'k')).toEqual(['"a", "b"', '']);
  });

  it.each([
    ['an adapter with an empty list', [], { 'idempotency-key': 'k' }, ['k']],
    ['a request without the list', undefined, { 'idempotency-key': 'k' }, ['k']],
    ['middleware', ['Host', 'a'], { host: 'a', 'idempotency-key': 'k' }, ['k']],
    ['names in another case', [], { 'Idempotency-KEY': 'k' }, ['k']],
    ['names in two cases', [], { 'Idempotency-Key': 'a', 'idempotency-key': 'b' }, ['a', 'b']],
    ['a list', [], { 'idempotency-key': ['a', 'b'] }, ['a', 'b']],
    ['a number', [], { 'idempotency-key': 7 }, ['7']],
    ['a field that middleware unset', [], { 'idempotency-key': undefined }, []],
  ])('come from the headers of %s', (_, rawHeaders, headers, lines) => {
    expect(linesOf(rawHeaders, headers)).toEqual(lines);
  });

  it('are those received, where middleware changed or deleted the header', () => {
    const received = ['Idempotency-Key', 'sent'];
    expect(linesOf(received, { 'idempotency-key': 'changed' })).toEqual(['sent']);
    expect(linesOf(received, {})).toEqual(['sent']);
  });

  it.each(['a, a', 'a,b', '"a", "b"', '"a","a"'])('joined, as %s, are no key', (joined) => {
    const lines = linesOf([], { 'idempotency-key': joined });
    for (const syntax of ['lenient', 'strict', 'uuid', () => true] as const) {
      expect(keyInLines(lines, syntax, 255)).toBe(false);
    }
  });
});

describe('the value of a field', () => {
  it.each([
    [{ 'content-length': '7' }, '7'],
    [{ 'content-length': 7 }, '7'],
    [{ 'Content-Length': '7' }, '7'],
    [{ 'content-length': ['7', '8'] }, '7,8'],
    [{ 'content-length': undefined }, undefined],
    [{}, undefined],
  ])('of %j is %j', (headers, value) => {
    expect(fieldValue(headers, 'content-length')).toBe(value);
  });
});

describe('Prefer: wait (RFC 7240)', () => {
  it.each([
    ['wait=10', 10_000],
    ['Wait = 3', 3_000],
    ['wait="4"', 4_000],
    ['wait=0', 0],
    ['respond-async, wait=100', 100_000],
    ['respond-async;foo="a,wait=7", wait=5; bar', 5_000],
    ['return=minimal; x="\\",wait=9", wait=2', 2_000],
    ['wait=1, wait=50', 1_000],
  ])('%s', (line, expected) => {
    expect(preferredWaitMs([line])).toBe(expected);
  });

  it('may have several lines, of which the first counts', () => {
    expect(preferredWaitMs(['respond-async', 'wait=2', 'wait=8'])).toBe(2_000);
  });

  it.each(['', 'wait', 'wait=', 'wait=soon', 'wait=1.5', 'wait=-1', 'await=5', 'x="wait=5"', ','])(
    'counts as none: %j',
    (line) => {
      expect(preferredWaitMs([line])).toBeUndefined();
    },
  );

  it('counts as none where it is absent', () => {
    expect(preferredWaitMs([])).toBeUndefined();
  });
});

const NONE: ReadonlySet<string> = new Set();

function added(
  before: OutgoingHttpHeaders,
  after: OutgoingHttpHeaders,
  routeHeaders = NONE,
  chosen: 'all' | ReadonlySet<string> = 'all',
  never = NONE,
): OutgoingHttpHeaders {
  return addedHeaders(before, after, routeHeaders, chosen, never);
}

describe('a header field in a replay', () => {
  it.each([
    'content-type content-language content-disposition content-encoding content-location',
    'location etag last-modified cache-control expires link vary retry-after allow',
    'lock-token next-page-token x-next-token x-ms-continuation-token sync-token x-fencing-token',
    'idempotency-key x-cache-key x-token-type secret-santa x-laptop etag',
    'x-order-id deprecation sunset x-request-idempotent x-server ratelimited-by',
  ])('is kept as part of the outcome: %s', (names) => {
    const rejected = names.split(' ').filter((name) => !isReplayable(name));
    // The last one starts like a family of fields, and is treated as one of it.
    expect(rejected).toEqual(names.includes('ratelimited-by') ? ['ratelimited-by'] : []);
  });

  it.each([
    'connection keep-alive proxy-connection te trailer transfer-encoding upgrade content-length',
    'date age server server-timing via',
    'set-cookie www-authenticate proxy-authenticate authentication-info dpop-nonce',
    'authorization proxy-authorization x-auth-token x-access-token x-csrf-token x-api-key',
    'csrf-token x-amz-security-token x-id-token x-refresh-token x-session-token x-subject-token',
    'access-token refresh-token id-token token x-token accesstoken private-token x-user-token',
    'x-gitlab-token x-vault-token x-xsrf-token session-id x-session-id',
    'jwt x-jwt cf-access-jwt-assertion api-key apikey x-apikey x-auth-key x-secret-key',
    'secret client-secret x-client-secret password x-password otp x-otp x-github-otp dpop',
    'x-amzn-trace-id x-b3-traceid x-datadog-trace-id cf-ray x-cloud-trace-context',
    'x-cache cf-cache-status cache-status x-served-by',
    'traceparent tracestate x-request-id request-id x-correlation-id x-trace-id',
    'ratelimit ratelimit-limit ratelimit-policy ratelimit-remaining x-ratelimit-reset',
    'access-control-allow-origin access-control-expose-headers',
  ])('is left out as part of the exchange: %s', (names) => {
    expect(names.split(' ').filter(isReplayable)).toEqual([]);
  });
});

describe('the added header fields', () => {
  it('are those that were absent before, or have another value now', () => {
    const before = { 'x-powered-by': 'Express', vary: 'Origin', 'cache-control': 'private' };
    const after = { ...before, vary: 'Accept', location: '/payments/1' };
    expect(added(before, after)).toEqual({ vary: 'Accept', location: '/payments/1' });
  });

  it('include those of the route’s @Header, which were set before the interceptor ran', () => {
    const before = { 'cache-control': 'no-store', 'x-middleware': '1' };
    expect(added(before, { ...before }, new Set(['cache-control']))).toEqual({
      'cache-control': 'no-store',
    });
  });

  it('exclude those of the exchange, even if the route’s @Header names them', () => {
    const after = { date: 'today', 'set-cookie': ['a=1'], 'x-request-id': '7', etag: '"1"' };
    expect(added({}, after, new Set(['x-request-id', 'set-cookie']))).toEqual({ etag: '"1"' });
  });

  it('keep every line of a repeated field, as the strings on the wire', () => {
    const link = ['</a>; rel="next"', '</b>; rel="prev"'];
    expect(added({}, { link, 'x-count': 7 })).toEqual({ link, 'x-count': '7' });
  });

  it('exclude those whose lines are the same as before, in another array', () => {
    expect(added({ link: ['a', 'b'] }, { link: ['a', 'b'] })).toEqual({});
    expect(added({ link: ['a'] }, { link: ['a', 'b'] })).toEqual({ link: ['a', 'b'] });
  });

  it('are the chosen ones where there is a choice', () => {
    const after = { etag: '"1"', location: '/1', 'content-type': 'text/plain' };
    const chosen = new Set(['etag', 'content-type', 'set-cookie']);
    expect(added({}, { ...after, 'set-cookie': ['a=1'] }, NONE, chosen)).toEqual({
      etag: '"1"',
      'content-type': 'text/plain',
    });
    expect(added({}, after, NONE, NONE)).toEqual({});
  });

  it('exclude those that are never to be, chosen or not', () => {
    const after = { etag: '"1"', 'x-own-token': 't' };
    const never = new Set(['x-own-token']);
    expect(added({}, after, NONE, 'all', never)).toEqual({ etag: '"1"' });
    expect(added({}, after, never, never, never)).toEqual({});
  });

  it('exclude removed ones', () => {
    expect(added({ 'x-powered-by': 'Express' }, {})).toEqual({});
  });
});

/** Notes the calls that reach it. */
function recorderOf(calls: string[]): ResponseRecorder {
  return {
    needsDrain: true,
    writeHead: () => void calls.push('writeHead'),
    flushHeaders: () => void calls.push('flushHeaders'),
    write: () => calls.push('write') > 0,
    end: () => void calls.push('end'),
  };
}

const newResponse = () => new ServerResponse(new IncomingMessage(new Socket()));

/** What a program sees of a response that looks at it. */
function stateOf(response: ServerResponse) {
  const { headersSent, writableEnded, writableNeedDrain } = response;
  return { headersSent, writableEnded, writableNeedDrain };
}

const UNSENT = { headersSent: false, writableEnded: false, writableNeedDrain: false };
const RECORDED = { headersSent: true, writableEnded: true, writableNeedDrain: true };

function callAll(response: ServerResponse): void {
  response.writeHead(201);
  response.flushHeaders();
  response.write('text');
  response.end();
}

const ALL = ['writeHead', 'flushHeaders', 'write', 'end'];

describe.each([
  ['on a prototype', false],
  ['on the response itself', true],
])('The patch of a response, %s,', (_place, isOwn) => {
  const patched = (response: ServerResponse, calls: string[] = []) =>
    new ResponsePatch(response, recorderOf(calls), isOwn);

  it('passes calls to its recorder, and on to the response after its removal', () => {
    const [response, calls] = [newResponse(), [] as string[]];
    const patch = patched(response, calls);
    expect(stateOf(response)).toEqual({ ...UNSENT, writableNeedDrain: true });
    callAll(response);
    patch.phase = 'body';
    expect(stateOf(response)).toEqual({ ...RECORDED, writableEnded: false });
    patch.phase = 'ended';
    expect([calls, stateOf(response)]).toEqual([ALL, RECORDED]);
    patch.remove();
    expect(stateOf(response)).toEqual(UNSENT);
    callAll(response);
    expect(calls).toEqual(ALL);
    expect(response.writableEnded).toBe(true);
  });

  it('replaces methods of middleware, calls them as originals, and restores them', () => {
    const [response, calls] = [newResponse(), [] as string[]];
    const ofMiddleware = function (this: ServerResponse) {
      calls.push(`middleware’s end on ${this === response ? 'the response' : 'another object'}`);
      return this;
    };
    response.end = ofMiddleware;
    const patch = patched(response, calls);
    response.end();
    expect(calls.splice(0)).toEqual(['end']);
    Reflect.apply(patch.original('end'), response, []);
    expect(calls.splice(0)).toEqual(['middleware’s end on the response']);
    patch.remove();
    expect(Object.getOwnPropertyDescriptor(response, 'end')?.value).toBe(ofMiddleware);
  });

  it('is reached, and left, through a method that other code wraps while it is active', () => {
    const [response, calls] = [newResponse(), [] as string[]];
    const patch = patched(response, calls);
    const found = response.end.bind(response) as () => ServerResponse;
    response.end = () => {
      calls.push('wrapper');
      return found();
    };
    response.end();
    patch.remove();
    response.end();
    expect(calls).toEqual(['wrapper', 'end', 'wrapper']);
    expect(response.writableEnded).toBe(true);
  });

  it('does not mistake its own method, restored by other code, for a foreign one', () => {
    const response = newResponse();
    const first = patched(response);
    // As middleware does that patches the patched method, and restores it when it has finished.
    const found = Reflect.get(response, 'end');
    response.end = () => response;
    first.remove();
    response.end = found;
    const second = patched(response);
    expect(second.original('end')).toBe(Reflect.get(ServerResponse.prototype, 'end'));
    second.remove();
    expect(Object.hasOwn(response, 'end')).toBe(false);
  });

  it('leaves a response usable that cannot be patched', () => {
    const [response, calls] = [newResponse(), [] as string[]];
    Object.defineProperty(response, 'end', { value: () => calls.push('read-only end') });
    expect(() => patched(response, calls)).toThrow(TypeError);
    response.setHeader('X-Own', 'set');
    response.end();
    expect([calls, response.getHeader('x-own')]).toEqual([['read-only end'], 'set']);
    expect(stateOf(response)).toEqual(UNSENT);
  });

  it('is not part of what is copied from the response', () => {
    const response = newResponse();
    const before = Reflect.ownKeys(Object.assign({}, response));
    patched(response).remove();
    expect(Reflect.ownKeys(Object.assign({}, response))).toEqual(before);
  });

  it('finds the methods below it when its prototype is wrapped, before and after', () => {
    const [response, calls] = [newResponse(), [] as string[]];
    // As tracers do: in front of whatever the response inherits from.
    const wrap = (name: string) => {
      const inherited = Object.getPrototypeOf(response) as ServerResponse;
      const end: unknown = Reflect.get(inherited, 'end');
      const value = function (this: ServerResponse, ...args: unknown[]) {
        calls.push(name);
        return Reflect.apply(end as () => unknown, this, args);
      };
      Object.setPrototypeOf(response, Object.create(inherited, { end: { value } }) as object);
    };
    wrap('inner');
    const patch = patched(response, calls);
    if (!isOwn) wrap('outer');
    response.end();
    patch.remove();
    response.end();
    const outer = isOwn ? [] : ['outer'];
    expect(calls).toEqual([...outer, 'end', ...outer, 'inner']);
    expect(response.writableEnded).toBe(true);
  });
});

describe('The prototype of a patched response', () => {
  const patched = (calls: string[] = []) => {
    const response = newResponse();
    return { response, patch: new ResponsePatch(response, recorderOf(calls), false) };
  };

  it('is one for all responses of a class, and keeps its place', () => {
    const [one, other] = [patched(), patched()];
    const prototype: unknown = Object.getPrototypeOf(one.response);
    expect(prototype).not.toBe(ServerResponse.prototype);
    expect(Object.getPrototypeOf(other.response)).toBe(prototype);
    one.patch.remove();
    expect(Object.getPrototypeOf(one.response)).toBe(prototype);
    // A second patch finds it.
    const again = new ResponsePatch(one.response, recorderOf([]), false);
    expect(Object.getPrototypeOf(one.response)).toBe(prototype);
    expect(again.original('end')).toBe(Reflect.get(ServerResponse.prototype, 'end'));
  });

  it('passes on the calls of an object that was never patched', () => {
    const response = newResponse();
    Object.setPrototypeOf(response, Object.getPrototypeOf(patched().response) as object);
    expect(stateOf(response)).toEqual(UNSENT);
    response.setHeader('X-Own', 'set').end();
    expect([response.getHeader('x-own'), response.writableEnded]).toEqual(['set', true]);
  });

  it('sets no property of a name on the response', () => {
    const { response } = patched();
    expect(Object.getOwnPropertyNames(response)).toEqual(Object.getOwnPropertyNames(newResponse()));
  });
});
