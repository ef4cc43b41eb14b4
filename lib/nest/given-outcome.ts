import { IdempotencyOptionsError, ValueNotStorableError } from '../core/errors/errors.js';
import {
  checkNames,
  isSettings,
  throwOptionError,
  typeName,
} from '../core/options/option-checks.js';
import type { EncodedOutcome, GivenOutcome } from '../core/operator/operator.js';
import type { ResolvedProtocolOptions } from '../core/operation/options.js';
import type { Transport } from '../core/record/events.js';
import { bytesOf, type Outcome } from '../core/record/record.js';
import { encodeValue } from '../transports/call/call-outcome.js';
import { encodeResponse } from '../transports/http/response/http-response.js';

/** An operation, as far as this process knows it. */
export interface KnownOperation {
  readonly transport: Transport;
  readonly options: ResolvedProtocolOptions;
}

const MAX_BYTES = 65_536;

const NAMES: Readonly<Record<GivenOutcome['kind'], ReadonlySet<string>>> = {
  value: new Set(['kind', 'value']),
  answer: new Set(['kind', 'status', 'headers', 'body']),
};

/** HTTP has no body for them. */
const BODILESS: readonly number[] = [204, 205, 304];

const HEADERS: readonly string[] = [
  ...['content-type', 'content-language', 'content-disposition'],
  ...['location', 'link', 'etag', 'cache-control', 'retry-after'],
];

/** What JavaScript or a file gave. A name that is unknown may be a body that no retry would get. */
export function checkGiven(given: unknown): asserts given is GivenOutcome {
  if (!isSettings(given)) throwOptionError('with', 'an object', typeName(given));
  const { kind } = given;
  if (kind !== 'value' && kind !== 'answer') {
    throwOptionError('with.kind', "'value' or 'answer'", typeName(kind));
  }
  checkNames('"with"', given, NAMES[kind]);
  if (kind === 'value' && !('value' in given)) throwOptionError('with.value', 'given', undefined);
}

/**
 * @param known - `undefined` for an operation that only its calls know, or an application that is not here.
 * @throws {@link IdempotencyOptionsError} for what does not fit the operation.
 */
export function encodedOutcome(
  given: GivenOutcome,
  operation: string,
  known: KnownOperation | undefined,
  options: ResolvedProtocolOptions,
): EncodedOutcome {
  const { kind } = given;
  const fits = known === undefined || (known.transport === 'http') === (kind === 'answer');
  if (!fits) {
    throw new IdempotencyOptionsError(
      `"${operation}" is ${known.transport === 'http' ? 'an HTTP route: give an answer, with status, headers and body' : 'no HTTP route: give a value'}, not ${kind === 'answer' ? 'an answer' : 'a value'}.`,
    );
  }
  const { outcome: pack } = known?.options ?? options;
  if (!pack.storeBody) {
    throw new IdempotencyOptionsError(
      `"${operation}" keeps no responses ("outcome.storeBody" is false): complete it without an outcome.`,
    );
  }
  const outcome = given.kind === 'answer' ? answerOf(given) : valueOf(given.value, pack.codec);
  const most = Math.min(MAX_BYTES, pack.maxBytes);
  if (bytesOf(outcome) > most) {
    throwOptionError('with', `at most ${String(most)} bytes`, `${String(bytesOf(outcome))} bytes`);
  }
  return { kind, outcome, pack };
}

function valueOf(value: unknown, codec: ResolvedProtocolOptions['outcome']['codec']): Outcome {
  const encoded = encodeValue(value, codec);
  if (!(encoded instanceof ValueNotStorableError)) return encoded;
  // Not its message: it may show the value.
  return throwOptionError('with.value', 'a value that "outcome.codec" can express', typeof value);
}

function answerOf({ status, headers = {}, body }: GivenOutcome & { kind: 'answer' }): Outcome {
  if (!Number.isInteger(status) || status < 200 || status > 599) {
    throwOptionError('with.status', 'an integer from 200 to 599', status);
  }
  if (!isSettings(headers)) throwOptionError('with.headers', 'an object', typeName(headers));
  if (body !== undefined && BODILESS.includes(status)) {
    throwOptionError('with.body', `omitted for the status ${String(status)}`, typeName(body));
  }
  const sent: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    const lower = name.toLowerCase();
    if (!HEADERS.includes(lower)) {
      throwOptionError('with.headers', `of ${HEADERS.join(', ')}`, 'another');
    }
    if (typeof value !== 'string' || !/^[\t\x20-\x7e]*$/.test(value)) {
      throwOptionError(`with.headers.${lower}`, 'text of visible ASCII characters', typeof value);
    }
    sent[lower] = value;
  }
  const [bytes, type] = bodyOf(body);
  if (type !== undefined) sent['content-type'] ??= type;
  return encodeResponse({ status, headers: sent, body: bytes });
}

function bodyOf(body: unknown): readonly [bytes: Uint8Array, type: string | undefined] {
  if (body === undefined) return [new Uint8Array(), undefined];
  if (body instanceof Uint8Array) return [body, 'application/octet-stream'];
  if (typeof body === 'string') return [Buffer.from(body), 'text/plain; charset=utf-8'];
  // As a value is encoded, so that nothing is lost: `JSON.stringify` makes {} of a Map, of a buffer and of a promise.
  const encoded = encodeValue(body);
  if (!(encoded instanceof ValueNotStorableError))
    return [encoded.body, 'application/json; charset=utf-8'];
  // Not its message: it may show the body.
  return throwOptionError('with.body', 'a text, a Uint8Array or JSON', typeName(body));
}
