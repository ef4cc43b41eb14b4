import { Random } from '../../../integration/differential/random.js';
import { listsFromSeed } from '../../jest/random-runs.js';
import {
  fuzzedBody,
  fuzzedKey,
  saidKey,
  type Framing,
  type FuzzedContent,
  type FuzzedRequest,
  type HeaderLine,
} from './fuzzed-request.js';

const RECENT = 50;

/** A server's parser rejects them, and hangs up. */
const CONTROLS = /[\x00-\x08\x0a-\x1f\x7f]/;

const KEY_NAMES = ['Idempotency-Key', 'idempotency-key', 'IDEMPOTENCY-KEY', 'iDEMPOTENCY-kEY'];
/** The callers that the application accepts. */
const CALLERS = ['alice', 'bob'];
const ODD_METHODS = ['TRACE', 'PROPFIND', 'SEARCH', 'CONNECT', 'post', 'PÖST', 'PO ST', '', 'X'];
const QUERIES = ['?a=1', '?a=2&a=1', '?b=1&a=2', '?__proto__=1', '?a[b]=1', '?%41=1', '?', '??'];
const ODD_QUERIES = ['?%zz', '?%ff', '?a=\xff', '?"<>', '?#', `?${'a=1&'.repeat(1_500)}`];
const ODD_TARGETS = [
  '/nothing',
  '/required/',
  '/REQUIRED',
  '//required',
  '/%72equired',
  '/required%00',
  '/required/..%2f',
  '/%',
  '/required;v=1',
  'http://elsewhere/required',
  'required',
  '*',
  '',
  `/${'x'.repeat(20_000)}`,
  '/required\xff',
];
const LINES: readonly HeaderLine[] = [
  ['Accept', 'nonsense'],
  ['Accept-Encoding', 'br;q=x'],
  ['If-None-Match', '*'],
  ['If-Match', '"x"'],
  ['Range', 'bytes=0-1'],
  ['TE', 'trailers'],
  ['Idempotency-Keys', 'no-key'],
  ['Idempotency_Key', 'no-key'],
  ['X-Idempotency-Key', 'no-key'],
  ['Idempotent-Replayed', 'true'],
  ['X-HTTP-Method-Override', 'GET'],
  ['X-Forwarded-Host', '__proto__'],
  ['Cookie', 'a=%zz; b'],
  ['Expect', '100-continue'],
  ['Prefer', 'respond-async'],
  ['X-Bytes', '\xe9\xff'],
];
const ODD_LINES: readonly HeaderLine[] = [
  ['Host', 'another'],
  ['Expect', 'nonsense'],
  ['Upgrade', 'h2c'],
  ['Connection', 'upgrade'],
  ['Transfer-Encoding', 'gzip'],
  ['Transfer-Encoding', 'nonsense'],
  ['Content-Length', '-1'],
  ['Content-Length', '1e12'],
  ['X-Long', 'x'.repeat(20_000)],
  ['Idempotency-Key ', 'a-space-before-the-colon'],
  ['X Y', 'a space in the name'],
  ['', 'no name'],
  ['X-Control', 'a\x00b'],
  ['X-Bare-Line-Feed', 'a\nb'],
];
const ODD_FRAMINGS: readonly Framing[] = [
  'chunked-with-trailers',
  'too-long',
  'too-short',
  'two-lengths',
  'length-and-chunked',
  'no-length',
  'odd-length',
  'bad-chunk',
];

/** @param targets - the application's routes. */
export const fuzzedRequests = (length: number, targets: readonly string[]) =>
  listsFromSeed((seed) => {
    const generator = new RequestGenerator(new Random(seed), targets);
    return Array.from({ length }, () => generator.next());
  });

class RequestGenerator {
  private readonly knownKeys: string[] = [];
  private readonly recent: FuzzedContent[] = [];
  private number = 0;

  constructor(
    private readonly random: Random,
    private readonly targets: readonly string[],
  ) {}

  next(): FuzzedRequest {
    const { random, recent } = this;
    this.number += 1;
    const earlier = recent.length > 0 && random.chance(0.4) ? random.pick(recent) : undefined;
    const content = earlier === undefined ? this.content() : this.repeated(earlier);
    if (earlier === undefined) recent.push(content);
    if (recent.length > RECENT) recent.shift();
    return { number: this.number, content };
  }

  /** The same again, or with one change: another request for the same key. */
  private repeated(earlier: FuzzedContent): FuzzedContent {
    const { random } = this;
    const again = { ...earlier, isPlain: false };
    const kind = random.fraction();
    if (kind < 0.6) return again;
    if (kind < 0.85) return { ...again, body: fuzzedBody(random).body };
    return { ...again, caller: random.pick(CALLERS) };
  }

  private content(): FuzzedContent {
    const { random } = this;
    const key = fuzzedKey(random, `key-${this.number}`, this.knownKeys);
    const { body, isPlain: isPlainBody } = fuzzedBody(random);
    const method = this.method();
    const target = this.target();
    const framing = this.framing();
    const other = this.otherLines();
    const cutAt = random.chance(0.02) ? random.fraction() : undefined;
    const caller = random.chance(0.9) ? random.pick(CALLERS) : random.pick(['stranger', undefined]);
    const parts = [method, target, framing, other];
    return {
      method: method.value,
      target: target.value,
      keyLines: key.lines,
      keyName: random.pick(KEY_NAMES),
      caller,
      body,
      framing: framing.value,
      otherLines: other.value,
      cutAt,
      isOdd:
        cutAt !== undefined ||
        parts.some(({ kind }) => kind === 'odd') ||
        key.lines.some((line) => CONTROLS.test(line)),
      isPlain:
        key.isNew &&
        saidKey(key.lines, target.value === '/strict').kind === 'valid' &&
        isPlainBody &&
        cutAt === undefined &&
        CALLERS.some((known) => known === caller) &&
        parts.every(({ kind }) => kind === 'plain'),
    };
  }

  private method(): Part<string> {
    const { random } = this;
    const kind = random.fraction();
    if (kind < 0.8) return plain('POST');
    if (kind < 0.9) return unusual(random.pick(['PUT', 'PATCH', 'DELETE']));
    if (kind < 0.97) return unusual(random.pick(['GET', 'HEAD', 'OPTIONS']));
    return odd(random.pick(ODD_METHODS));
  }

  private target(): Part<string> {
    const { random } = this;
    const kind = random.fraction();
    const route = random.pick(this.targets);
    if (kind < 0.85) return plain(route);
    if (kind < 0.93) return unusual(route + random.pick(QUERIES));
    if (kind < 0.96) return odd(route + random.pick(ODD_QUERIES));
    return odd(random.pick(ODD_TARGETS));
  }

  private framing(): Part<Framing> {
    const { random } = this;
    const kind = random.fraction();
    if (kind < 0.85) return plain('length');
    return kind < 0.93 ? unusual('chunked') : odd(random.pick(ODD_FRAMINGS));
  }

  private otherLines(): Part<readonly HeaderLine[]> {
    const { random } = this;
    const kind = random.fraction();
    if (kind < 0.85) return plain([]);
    if (kind < 0.95) return unusual([random.pick(LINES), random.pick(LINES)]);
    return odd([random.pick(ODD_LINES)]);
  }
}

interface Part<Value> {
  readonly value: Value;
  readonly kind: 'plain' | 'unusual' | 'odd';
}

function plain<Value>(value: Value): Part<Value> {
  return { value, kind: 'plain' };
}

/** Allowed by HTTP, whatever the application does with it. */
function unusual<Value>(value: Value): Part<Value> {
  return { value, kind: 'unusual' };
}

function odd<Value>(value: Value): Part<Value> {
  return { value, kind: 'odd' };
}
