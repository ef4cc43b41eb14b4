import type { OutgoingHttpHeaders } from 'node:http';
import type { LargeBody, Outcome, ReadableOutcome } from '../../../core/record/record.js';

/** A response as it is sent. Header names are in lower case. */
export interface RecordedResponse {
  readonly status: number;
  readonly headers: OutgoingHttpHeaders;
  readonly body: Uint8Array;
  /** In place of the body, which is empty then. */
  readonly large?: LargeBody | undefined;
}

/** The version of the outcome's header. */
const FORMAT = 1;

/** Without status and fields if the response was not kept. An array is short, and differs from a call's outcome. */
type HttpOutcomeHeader =
  | readonly [format: typeof FORMAT]
  | readonly [format: typeof FORMAT, status: number, headers: OutgoingHttpHeaders];

export const NOTHING = new Uint8Array();

/** The operation is done, its response was not kept: replayed as 409 (contract C70a, C87d). */
export const RESPONSE_NOT_KEPT: Outcome = Object.freeze({
  header: JSON.stringify([FORMAT] satisfies HttpOutcomeHeader),
  body: NOTHING,
});

/** Encodes a response as an outcome. Does not copy the body. */
export function encodeResponse({ status, headers, body }: RecordedResponse): Outcome {
  const shape = shapeOf(status, headers);
  if (shape === undefined) return { header: encoded(status, headers), body };
  let header = headersByShape.get(shape);
  if (header === undefined) {
    header = encoded(status, headers);
    remember(headersByShape, shape, header);
  }
  return { header, body };
}

/** The stored response, or `undefined` if it was not kept or has a format that this version does not support. */
export function decodeResponse(outcome: ReadableOutcome): RecordedResponse | undefined {
  const { header, body, large } = outcome;
  const head = headsByHeader.get(header) ?? decoded(header);
  return head && { status: head.status, headers: head.headers, body, large };
}

function encoded(status: number, headers: OutgoingHttpHeaders): string {
  return JSON.stringify([FORMAT, status, asSent(headers)] satisfies HttpOutcomeHeader);
}

/** Node sends any value by its text, as JSON would not: a Date, a BigInt, NaN, an object with `toString`. */
function asSent(headers: OutgoingHttpHeaders): OutgoingHttpHeaders {
  let sent: OutgoingHttpHeaders | undefined;
  for (const name in headers) {
    const value: unknown = headers[name];
    if (typeof value === 'string' || value === undefined) continue;
    sent ??= { ...headers };
    sent[name] = Array.isArray(value)
      ? value.map(String)
      : (value as { toString(): string }).toString();
  }
  return sent ?? headers;
}

function decoded(header: string): Head | undefined {
  try {
    const [format, status, headers] = JSON.parse(header) as Partial<
      [number, number, OutgoingHttpHeaders]
    >;
    if (format !== FORMAT || status === undefined || headers === undefined) return undefined;
    const head = { status, headers: Object.freeze(headers) };
    if (shapeOf(status, headers) !== undefined) remember(headsByHeader, header, head);
    return head;
  } catch {
    return undefined;
  }
}

export type Head = Pick<RecordedResponse, 'status' | 'headers'>;

const headersByShape = new Map<string, string>();
const headsByHeader = new Map<string, Head>();

const MAX_REMEMBERED = 100;
const MAX_TYPE_LENGTH = 100;

/** Only the first ones: a handler may respond with any number of types. */
function remember<Value>(values: Map<string, Value>, shape: string, value: Value): void {
  if (values.size < MAX_REMEMBERED) values.set(shape, value);
}

/** Status and content type, if there is no other field, so that other responses have the same header. */
function shapeOf(status: number, headers: OutgoingHttpHeaders): string | undefined {
  const type = headers['content-type'];
  if (typeof type !== 'string' || type.length > MAX_TYPE_LENGTH) return undefined;
  for (const name in headers) if (name !== 'content-type') return undefined;
  return `${String(status)} ${type}`;
}
