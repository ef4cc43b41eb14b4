import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import type { Random } from '../../../integration/differential/random.js';
import type { FuzzedBody } from './fuzzed-request.js';

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
