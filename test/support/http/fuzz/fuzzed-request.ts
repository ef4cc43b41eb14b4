import { parseItem } from 'structured-headers';
import type { Random } from '../../../integration/differential/random.js';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';

export type HeaderLine = readonly [name: string, value: string];

/** How the bytes of a body are framed; all but the first two contradict what is sent. */
export type Framing =
  | 'length'
  | 'chunked'
  | 'chunked-with-trailers'
  | 'too-long'
  | 'too-short'
  | 'two-lengths'
  | 'length-and-chunked'
  | 'no-length'
  | 'odd-length'
  | 'bad-chunk';

export interface FuzzedBody {
  readonly bytes: Buffer;
  readonly types: readonly string[];
  readonly coding?: string;
}

/** What is sent, except the number that identifies one sending. */
export interface FuzzedContent {
  readonly method: string;
  readonly target: string;
  /** Values of the key's field, one per line. */
  readonly keyLines: readonly string[];
  /** The field's name, in some mixture of cases. */
  readonly keyName: string;
  /** The caller: a known user, a stranger, or anonymous. */
  readonly caller: string | undefined;
  readonly body: FuzzedBody | undefined;
  readonly framing: Framing;
  readonly otherLines: readonly HeaderLine[];
  /** Only the beginning is sent, then the client leaves: a share of the whole. */
  readonly cutAt: number | undefined;
  /** The server may lose its place in the connection, or close it. */
  readonly isOdd: boolean;
  /** The request is correct, and its key is new: it has to be executed. */
  readonly isPlain: boolean;
}

export interface FuzzedRequest {
  readonly number: number;
  readonly content: FuzzedContent;
}

/** By this header the application identifies the executed request; the library does not read it. */
export const NUMBER_HEADER = 'x-number';
/** And by this one the run: each has its own callers, whose keys no other run has used. */
export const RUN_HEADER = 'x-run';

export function encode({ number, content }: FuzzedRequest, run: number): Buffer {
  const { method, target, keyLines, keyName, caller, body, otherLines, isOdd, cutAt } = content;
  const lines: HeaderLine[] = [
    ['Host', '127.0.0.1'],
    [NUMBER_HEADER, String(number)],
    [RUN_HEADER, String(run)],
    ['Connection', isOdd ? 'close' : 'keep-alive'],
    ...keyLines.map((value): HeaderLine => [keyName, value]),
    ...(caller === undefined ? [] : [['Authorization', `Bearer ${caller}`] as const]),
    ...(body?.types ?? []).map((type): HeaderLine => ['Content-Type', type]),
    ...(body?.coding === undefined ? [] : [['Content-Encoding', body.coding] as const]),
  ];
  const framed = frame(body?.bytes, content.framing);
  const head = [
    `${method} ${target} HTTP/1.1`,
    ...[...lines, ...framed.lines, ...otherLines].map(([name, value]) => `${name}: ${value}`),
  ].join('\r\n');
  const whole = Buffer.concat([Buffer.from(`${head}\r\n\r\n`, 'latin1'), framed.bytes]);
  return cutAt === undefined ? whole : whole.subarray(0, Math.floor(cutAt * whole.length));
}

interface Framed {
  readonly lines: readonly HeaderLine[];
  readonly bytes: Buffer;
}

function frame(bytes: Buffer | undefined, framing: Framing): Framed {
  if (bytes === undefined) return { lines: [], bytes: Buffer.alloc(0) };
  const length = (value: number | string): HeaderLine => ['Content-Length', String(value)];
  const chunked: HeaderLine = ['Transfer-Encoding', 'chunked'];
  switch (framing) {
    case 'length':
      return { lines: [length(bytes.length)], bytes };
    case 'chunked':
      return { lines: [chunked], bytes: inChunks(bytes, '') };
    case 'chunked-with-trailers':
      return {
        lines: [chunked, ['Trailer', 'Idempotency-Key']],
        bytes: inChunks(bytes, 'Idempotency-Key: from-the-trailer\r\n'),
      };
    case 'too-long':
      return { lines: [length(Math.max(0, bytes.length - 3))], bytes };
    case 'too-short':
      return { lines: [length(bytes.length + 3)], bytes };
    case 'two-lengths':
      return { lines: [length(bytes.length), length(bytes.length + 1)], bytes };
    case 'length-and-chunked':
      return { lines: [length(bytes.length), chunked], bytes: inChunks(bytes, '') };
    case 'no-length':
      return { lines: [], bytes };
    case 'odd-length':
      return { lines: [length(`+${bytes.length}`)], bytes };
    case 'bad-chunk':
      return { lines: [chunked], bytes: Buffer.concat([Buffer.from('zz\r\n'), bytes]) };
  }
}

function inChunks(bytes: Buffer, trailers: string): Buffer {
  const middle = Math.ceil(bytes.length / 2);
  const chunks = [bytes.subarray(0, middle), bytes.subarray(middle)]
    .filter(({ length }) => length > 0)
    .flatMap((chunk) => [
      Buffer.from(`${chunk.length.toString(16)}\r\n`),
      chunk,
      Buffer.from('\r\n'),
    ]);
  return Buffer.concat([...chunks, Buffer.from(`0\r\n${trailers}\r\n`)]);
}

const MAX_LENGTH = 255;

/** What the lines of the key's field mean, by a parser other than the library's. */
export type SaidKey =
  | { readonly kind: 'missing' }
  | { readonly kind: 'invalid' }
  | { readonly kind: 'valid'; readonly key: string };

export function saidKey(lines: readonly string[], isStrict: boolean): SaidKey {
  const [line, ...others] = lines;
  if (line === undefined) return { kind: 'missing' };
  const value = line.replace(/^[ \t]+|[ \t]+$/g, '');
  const key = !isStrict && isBare(value) ? value : stringItem(value);
  const isValid = others.length === 0 && key !== undefined && key !== '';
  return isValid && key.length <= MAX_LENGTH ? { kind: 'valid', key } : { kind: 'invalid' };
}

function stringItem(value: string): string | undefined {
  try {
    const [item] = parseItem(value);
    return typeof item === 'string' ? item : undefined;
  } catch {
    return undefined;
  }
}

/** Printable ASCII without a meaning in a structured field or a list. */
function isBare(value: string): boolean {
  return /^[!-~]+$/.test(value) && !/[",;\\]/.test(value);
}

const NOTABLE = ['__proto__', 'constructor', '../..', '%00', '*', '{a}', 'a b', "'", '0', 'null'];
const PARAMETERS = ['', '', '', ';v=1', '; w="x"', ';a=?1', ';', ';=1', ';A=1', ';a=:aGk=:', ' ;a'];
const SPACES = ['', '', '', '', ' ', '\t', ' \t '];
/** No `@`: structured-headers rejects a date with a parameter behind it, which RFC 9651 §3.3.7 allows. */
const SOUP = '"\\,;=: abzAZ09-_./%?*(){}\t\x7f\x80\xe9\xff\x01\x0b'.split('');

export interface FuzzedKey {
  readonly lines: readonly string[];
  /** A key that no request before it used, in a correct spelling. */
  readonly isNew: boolean;
}

/** @param known - keys of earlier requests, to be reused. */
export function fuzzedKey(random: Random, fresh: string, known: string[]): FuzzedKey {
  const kind = random.fraction();
  if (kind < 0.3) {
    known.push(fresh);
    return { lines: [random.chance(0.5) ? fresh : quoted(fresh)], isNew: true };
  }
  return { lines: oddLines(random, kind, knownOr(random, known)), isNew: false };
}

function oddLines(random: Random, kind: number, key: string): string[] {
  if (kind < 0.65) return [spelled(random, key)];
  if (kind < 0.72) return [];
  if (kind < 0.79) return [soup(random)];
  if (kind < 0.85) return [damaged(random, spelled(random, key))];
  if (kind < 0.9) return [spelled(random, key), random.chance(0.5) ? key : soup(random)];
  if (kind < 0.93) return [`${quoted(key)},${random.pick(SPACES)}${quoted(key)}`];
  if (kind < 0.96) return [lengthy(random)];
  return [spelled(random, random.pick(NOTABLE))];
}

/** Mostly recent ones: their operations may still be running. */
function knownOr(random: Random, known: readonly string[]): string {
  if (known.length === 0) return random.pick(NOTABLE);
  const reach = random.chance(0.7) ? 10 : known.length;
  return known[Math.max(0, known.length - random.integer(1, reach))]!;
}

function spelled(random: Random, key: string): string {
  const [before, after] = [random.pick(SPACES), random.pick(SPACES)];
  const value = random.chance(0.5) ? key : quoted(key) + random.pick(PARAMETERS);
  return `${before}${value}${after}`;
}

function quoted(key: string): string {
  return `"${key.replaceAll(/["\\]/g, '\\$&')}"`;
}

function soup(random: Random): string {
  return Array.from({ length: random.integer(0, 12) }, () => random.pick(SOUP)).join('');
}

function damaged(random: Random, text: string): string {
  const at = random.integer(0, text.length);
  const [before, after] = [text.slice(0, at), text.slice(at)];
  return random.chance(0.5) ? before + after.slice(1) : before + random.pick(SOUP) + after;
}

function lengthy(random: Random): string {
  const length = random.pick([254, 255, 256, 1_020, 4_000]);
  const text = random.chance(0.3) ? '"'.repeat(length) : 'x'.repeat(length);
  return random.chance(0.7) ? quoted(text) : text;
}

const nested = (levels: number, open: string, close: string) =>
  `${open.repeat(levels)}1${close.repeat(levels)}`;
const wide = (members: number) =>
  `{${Array.from({ length: members }, (_, index) => `"m${index * 7}":${index}`).join()}}`;

const HOSTILE_JSON = [
  ...[999, 1_000, 1_001, 5_000].map((levels) => nested(levels, '[', ']')),
  ...[999, 1_001, 4_000].map((levels) => nested(levels, '{"a":', '}')),
  nested(20_000, '[', ']'),
  nested(3_000, '[', ''),
  wide(3_000),
  `[${'0,'.repeat(20_000)}0]`,
  '{"__proto__":{"isAdmin":true}}',
  '{"a":{"__proto__":null},"__proto__":1}',
  '{"constructor":{"prototype":{"polluted":1}}}',
  '{"hasOwnProperty":1,"toString":2,"valueOf":3,"toJSON":4,"then":5,"length":1e9}',
  '{"\\u005f_proto__":{"a":1}}',
  '"\\ud800"',
  '{"\\udfff":"\\ud800\\ud800","a":"\\udc00"}',
  '{"a":1e400}',
  '[-1e400]',
  '[1e-400,-0,0.1e1,123456789012345678901234567890]',
  '{"a":1,"a":2}',
  '["[Object]","[Array]","[Circular]"]',
  '{"a":NaN}',
  '{"a":Infinity}',
  "{'a':1}",
  '{"a":1,}',
  '{"a":1}{"b":2}',
  '{"a":1',
  '"\u2028\u2029\\u0000"',
  '\ufeff{"a":1}',
  'null',
  'true',
  '7',
  '""',
  '[]',
  '{}',
  ' ',
  '',
];

const HOSTILE_FORMS = [
  'a=1&a=2&b[c]=3&b[]=4',
  '__proto__[x]=1&constructor[prototype][y]=2',
  '%zz=%&%ff=%c3',
  '&&&==&=',
  `a${'[b]'.repeat(100)}=1`,
  Array.from({ length: 1_500 }, (_, index) => `p${index}=1`).join('&'),
  'a[1000000]=1',
  'a=%00%0d%0a',
];

const MULTIPART = [
  '--b',
  'Content-Disposition: form-data; name="file"; filename="a.txt"',
  '',
  'content',
  '--b--',
  '',
].join('\r\n');

const TYPES = [
  'application/json; charset=utf-16',
  'application/json; charset=nonsense',
  'application/json;;;',
  'APPLICATION/JSON',
  'application/vnd.api+json',
  'application/json, text/plain',
  'application/x-www-form-urlencoded; charset=iso-8859-1',
  'application/x-www-form-urlencoded',
  'multipart/form-data',
  'multipart/form-data; boundary=b',
  'multipart/form-data; boundary=',
  'text/plain; charset=utf-7',
  'application/octet-stream',
  'a/b/c',
  '/',
  ';',
  '',
  '\xff\xfe',
  '__proto__',
];

const NAMES = ['amount', 'note', 'a', 'b', '', '10', '9', '__proto__', 'toJSON', 'é'];

export interface ChosenBody {
  readonly body: FuzzedBody | undefined;
  readonly isPlain: boolean;
}

export function fuzzedBody(random: Random): ChosenBody {
  const kind = random.fraction();
  if (kind < 0.5) return { body: plainJson(random), isPlain: true };
  if (kind < 0.55) return { body: undefined, isPlain: false };
  return { body: disguised(random, oddBody(random, kind)), isPlain: false };
}

function plainJson(random: Random): FuzzedBody {
  const amount = random.integer(1, 3);
  return { bytes: Buffer.from(`{"amount":${amount}}`), types: ['application/json'] };
}

function oddBody(random: Random, kind: number): FuzzedBody {
  if (kind < 0.7) {
    return { bytes: Buffer.from(random.pick(HOSTILE_JSON)), types: ['application/json'] };
  }
  if (kind < 0.8) {
    return { bytes: Buffer.from(jsonText(random, 3)), types: ['application/json'] };
  }
  if (kind < 0.86) {
    const bytes = Buffer.from(jsonText(random, 2));
    return { bytes: withBytesChanged(random, bytes), types: ['application/json'] };
  }
  if (kind < 0.92) {
    const form = Buffer.from(random.pick(HOSTILE_FORMS));
    return { bytes: form, types: ['application/x-www-form-urlencoded'] };
  }
  if (kind < 0.95) return { bytes: octets(random), types: ['text/plain'] };
  if (kind < 0.98) return { bytes: octets(random), types: ['application/octet-stream'] };
  return { bytes: Buffer.from(MULTIPART), types: ['multipart/form-data; boundary=b'] };
}

/** The same body under another type or coding, now and then. */
function disguised(random: Random, body: FuzzedBody): FuzzedBody {
  const kind = random.fraction();
  if (kind < 0.7) return body;
  if (kind < 0.85) return { ...body, types: [random.pick(TYPES)] };
  if (kind < 0.88) return { ...body, types: [] };
  if (kind < 0.9) return { ...body, types: [...body.types, random.pick(TYPES)] };
  if (kind < 0.95) return coded(random, body);
  const codings = ['gzip', 'br', 'deflate', 'nonsense', 'gzip, gzip', '', 'identity', '__proto__'];
  return { ...body, coding: random.pick(codings) };
}

function coded(random: Random, body: FuzzedBody): FuzzedBody {
  const [coding, code] = random.pick([
    ['gzip', gzipSync],
    ['deflate', deflateSync],
    ['br', brotliCompressSync],
  ] as const);
  return { ...body, coding, bytes: code(body.bytes) };
}

function jsonText(random: Random, levels: number): string {
  const kind = random.integer(0, levels === 0 ? 4 : 7);
  const below = () => jsonText(random, levels - 1);
  switch (kind) {
    case 0:
      return random.pick(['null', 'true', 'false']);
    case 1:
      return String(random.integer(-3, 3));
    case 2:
      return random.pick(['1e2', '1E-7', '-0', '0.5', '1e308', '9007199254740993']);
    case 3:
      return random.pick([
        '""',
        '"a"',
        '"\\u0041"',
        '"\\ud83d\\ude00"',
        '"\\ud83d"',
        '"__proto__"',
      ]);
    case 4:
      return JSON.stringify(octets(random).toString('latin1'));
    case 5:
      return `[${list(random, below).join()}]`;
    default:
      return `{${list(random, () => `${JSON.stringify(random.pick(NAMES))}:${below()}`).join()}}`;
  }
}

function list(random: Random, item: () => string): string[] {
  return Array.from({ length: random.integer(0, 4) }, item);
}

function octets(random: Random): Buffer {
  return Buffer.from(Array.from({ length: random.integer(0, 40) }, () => random.integer(0, 255)));
}

function withBytesChanged(random: Random, bytes: Buffer): Buffer {
  const at = random.integer(0, bytes.length);
  const [before, after] = [bytes.subarray(0, at), bytes.subarray(at)];
  const put = random.chance(0.5) ? octets(random).subarray(0, 2) : Buffer.alloc(0);
  return Buffer.concat([before, put, after.subarray(random.integer(0, 2))]);
}
