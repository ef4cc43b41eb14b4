import type { OutgoingHttpHeaders } from 'node:http';
import type { Outcome } from '../../../core/record/record.js';

/** A response as it is sent. Header names are in lower case. */
export interface RecordedResponse {
  readonly status: number;
  readonly headers: OutgoingHttpHeaders;
  readonly body: Uint8Array;
}

/** The version of the outcome's header. */
const FORMAT = 1;

/** Without status and fields if the response was not kept. An array is short, and differs from a call's outcome. */
type HttpOutcomeHeader =
  | readonly [format: typeof FORMAT]
  | readonly [format: typeof FORMAT, status: number, headers: OutgoingHttpHeaders];

const NOTHING = new Uint8Array();

/** The operation is done, its response was not kept: replayed as 409 (contract C70a, C87d). */
export const RESPONSE_NOT_KEPT: Outcome = Object.freeze({
  header: JSON.stringify([FORMAT] satisfies HttpOutcomeHeader),
  body: NOTHING,
});

/** Encodes a response as an outcome. Does not copy the body. */
export function encodeResponse({ status, headers, body }: RecordedResponse): Outcome {
  return { header: JSON.stringify([FORMAT, status, headers] satisfies HttpOutcomeHeader), body };
}

/** The stored response, or `undefined` if it was not kept or has a format that this version does not support. */
export function decodeResponse({ header, body }: Outcome): RecordedResponse | undefined {
  try {
    const [format, status, headers] = JSON.parse(header) as Partial<
      [number, number, OutgoingHttpHeaders]
    >;
    if (format !== FORMAT || status === undefined || headers === undefined) return undefined;
    return { status, headers, body };
  } catch {
    return undefined;
  }
}
