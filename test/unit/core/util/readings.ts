import { ExecutionContextHost } from '@nestjs/core/helpers/execution-context-host.js';
import { messagePackCodec } from 'nestjs-idempotency/messagepack';
import { retryAfterMs } from '../../../support/internals/client.js';
import { JSON_CODEC } from '../../../support/internals/codecs.js';
import { canonicalJson, checkDepth, selectMembers } from '../../../support/internals/core.js';
import {
  comparableArguments,
  headerKey,
  type GraphqlField,
  type GraphqlRoute,
} from '../../../support/internals/call.js';
import {
  contentOf,
  fastifyForm,
  formContent,
  multerForm,
  requestFingerprint,
  preferredWaitMs,
} from '../../../support/internals/http.js';
import { headerOf, payloadField, payloadKey } from '../../../support/internals/message.js';
import {
  chosenContent,
  fieldLines,
  keyInLines,
  keyText,
} from '../../../support/internals/transports-common.js';

/** A parser of foreign input, and an input for each length. */
export type Reading<Input = any> = readonly [
  what: string,
  read: (input: Input) => unknown,
  inputOf: (n: number) => Input,
  /** The least length: the longest input is four times as long. */
  least?: number,
];

const spaces = (n: number) => ' '.repeat(n);
const lines = (n: number) =>
  Array.from({ length: n }, (_, at) => [`X-${at}`, 'a', 'Prefer', 'b']).flat();
const wide = (n: number) =>
  Object.fromEntries(Array.from({ length: n }, (_, at) => [`m${n - at}`, [{ at }]]));
/** As many containers as there are levels above them: a search among all ancestors of each takes n × n. */
const deep = (n: number, innermost = '[0]') =>
  JSON.parse(
    '[{"a":'.repeat(n / 2) + `[${Array(n).fill(innermost).join()}]` + '}]'.repeat(n / 2),
  ) as object;
/** A content's depth has a limit: these lengths stay below it. */
const LEAST_DEPTH = 100;

const messagePack = messagePackCodec();
const keyOf = (line: string) => keyInLines([line], 'lenient', 255);
const context = new ExecutionContextHost([{}]);
const byPayload = (payload: unknown) => {
  const message = new ExecutionContextHost([payload, undefined]);
  message.setType('rpc');
  return message;
};
const fingerprintOf = requestFingerprint('C.m', { exclude: ['note'] }, false, false);
const graphqlRoute = {
  keyField: 'idempotency-key',
  options: { key: { syntax: 'lenient', maxLength: 255 } },
} as GraphqlRoute;
const rabbitMq = (headers: object) => ({
  transport: 'rabbitmq' as const,
  message: { properties: { headers } } as never,
  channel: {} as never,
  pattern: 'p',
});
const request = (url: string, headers = {}, body?: unknown) =>
  contentOf({ method: 'POST', url, headers, body });

/** Without files nothing is awaited before the end. */
const fieldsOf = (body: object) => void formContent({ body }, (members) => members, true);

export const readings: readonly Reading[] = [
  ['a key with white space inside', keyOf, (n) => `a${spaces(n)}b`],
  ['a key with white space around', keyOf, (n) => `${spaces(n)}a${spaces(n)}`],
  ['a key of white space', keyOf, (n) => spaces(n)],
  ['a key that is too long', keyOf, (n) => 'a'.repeat(n)],
  ['a quoted key with escapes', keyOf, (n) => `"${'\\"'.repeat(n)}"`],
  ['a quoted key without an end', keyOf, (n) => `"${'a'.repeat(n)}`],
  ['parameters of a key', keyOf, (n) => `"a"${';b=1'.repeat(n)}`],
  ['parameters of a key with escapes', keyOf, (n) => `"a"${';b=%"%c3%a9"'.repeat(n)}`],
  ['backslashes in a key', keyOf, (n) => `"${'\\'.repeat(n)}`],
  ['spaces in front of a parameter', keyOf, (n) => `"a";${spaces(n)}`],
  ['digits of a parameter', keyOf, (n) => `"a";b=${'1'.repeat(n)}`],
  ['a bare key and a space', keyOf, (n) => `${'a'.repeat(n)} `],
  ['bytes without an end', keyOf, (n) => `"a";b=:${'aaaa'.repeat(n)}`],
  ['header lines', (all) => fieldLines(all, undefined, 'prefer'), lines],
  ['header fields of an adapter', (all) => fieldLines([], all, 'prefer'), wide],
  ['preferences', (line) => preferredWaitMs([line]), (n) => 'wait=,'.repeat(n)],
  ['preferences in quotes', (line) => preferredWaitMs([line]), (n) => '"\\"'.repeat(n)],
  ['a preference with white space', (line) => preferredWaitMs([line]), (n) => `wait${spaces(n)}=`],
  ['lines of preferences', preferredWaitMs, (n) => Array(n).fill('wait="1')],
  [
    'a key in the header of GraphQL',
    (rawHeaders) =>
      headerKey(
        { request: { rawHeaders }, info: { path: { key: 'f' } } } as GraphqlField,
        graphqlRoute,
      ),
    (n) => [...lines(n), 'Idempotency-Key', `a${spaces(n)}b`],
  ],
  ['headers of a message', (headers) => headerOf(rabbitMq(headers), 'm1'), wide],
  [
    'a header of a message that is a list',
    (list) => headerOf(rabbitMq({ k: list }), 'k'),
    (n) => Array(n).fill('a'),
  ],
  ['a key of a message', (key) => keyText(key, 'key'), spaces],
  ['a field of a payload', (payload) => payloadField('m1')(byPayload(payload)), wide],
  ['a payload', (payload) => payloadKey()(byPayload(payload)), wide],
  [
    'members of a payload',
    (payload) => payloadKey({ exclude: ['a.a'] })(byPayload(payload)),
    deep,
    LEAST_DEPTH,
  ],
  ['a media type', (type) => request('/', { 'content-type': type }), (n) => `a${spaces(n)}b;`],
  [
    'a query',
    (url) => fingerprintOf(request(url), context),
    (n) => `/?${Array.from({ length: n }, (_, at) => `m${n - at}=%c3`).join('&')}`,
  ],
  ['a body', (body) => fingerprintOf(request('/', {}, body), context), wide],
  [
    'a body of empty objects',
    (body) => fingerprintOf(request('/', {}, body), context),
    (n) => Array(n).fill({}),
  ],
  ['a deep body', (body) => fingerprintOf(request('/', {}, body), context), deep, LEAST_DEPTH],
  ['a canonical form', canonicalJson, wide],
  ['a deep canonical form', canonicalJson, deep, LEAST_DEPTH],
  ['a deep canonical form of objects', canonicalJson, (n) => deep(n, '{"b":{}}'), LEAST_DEPTH],
  ['a depth', checkDepth, deep, LEAST_DEPTH],
  ['a depth without an end', checkDepth, (n) => deep(n * 100)],
  [
    'what a function has chosen',
    (value) => chosenContent(value, 'fingerprint', 'o'),
    deep,
    LEAST_DEPTH,
  ],
  ['a selection', (value) => selectMembers(value, ['a.a.a'], ['a.a.b']), deep, LEAST_DEPTH],
  ['arguments of GraphQL', comparableArguments, deep, LEAST_DEPTH],
  ['fields of a form', fieldsOf, wide],
  [
    'arrays of a form',
    fieldsOf,
    (n) => ({ rows: Array.from({ length: n }, () => Object.assign([], { 1: 'a' })) }),
  ],
  [
    'files of a form',
    (files) => multerForm({ body: {}, files }, true),
    (n) =>
      Array.from({ length: n }, (_, at) => ({
        fieldname: `f${at % 3}`,
        originalname: 'a',
        buffer: Buffer.alloc(1),
      })),
  ],
  ['parts of a form', (body) => fastifyForm({ body, isMultipart: () => true }), wide],
  ['a value that is stored as JSON', (value) => JSON_CODEC.encode(value), deep, LEAST_DEPTH],
  [
    'a value that is stored as MessagePack',
    (value) => messagePack.encode(value),
    deep,
    LEAST_DEPTH,
  ],
  [
    'a value that was stored as MessagePack',
    (bytes) => messagePack.decode(bytes),
    (n) => messagePack.encode(Array.from({ length: n }, () => new Map([['a', new Set([1])]]))),
  ],
  [
    'the pause that a response asks for',
    (value) => retryAfterMs(new Headers({ 'retry-after': value }), 0),
    (n) => `Mon${' ('.repeat(n)}`,
  ],
];

const ancestors: object[] = [];
function walk(value: unknown): void {
  if (typeof value !== 'object' || value === null || ancestors.includes(value)) return;
  ancestors.push(value);
  for (const member of Object.values(value)) walk(member);
  ancestors.pop();
}

/** Mistakes of such parsers, which the count has to find. */
export const mistakes: readonly Reading[] = [
  ['a search for a container among its ancestors', walk, deep, LEAST_DEPTH],
  ['JSON.stringify’s replacer with that search', replaced, deep, LEAST_DEPTH],
  [
    'a search for the end from each character',
    (text: string) => {
      let found = 0;
      for (let at = 0; at < text.length; at += 1) {
        let end = at;
        while (text[end] === ' ') end += 1;
        if (end === text.length) found += 1;
      }
      return found;
    },
    (n) => `a${spaces(n)}b`,
  ],
  [
    'a list copied for each item',
    (items: string[]) => items.reduce<string[]>((all, item) => all.concat(item), []),
    (n) => Array(n).fill('a'),
  ],
  [
    'a string searched for each of its parts',
    (text: string) => text.split(',').filter((part) => text.includes(`;${part}`)),
    (n) => 'a,'.repeat(n),
  ],
];

function replaced(value: object): string {
  const stack: unknown[] = [];
  return JSON.stringify(value, function (this: unknown, _, member: unknown) {
    while (stack.length > 0 && stack.at(-1) !== this) stack.pop();
    if (stack.includes(member)) throw new Error('a circle');
    stack.push(member);
    return member;
  });
}
