import type { OutgoingHttpHeaders } from 'node:http';
import type { Outcome } from '../../../core/record/record.js';

/** One answer as it goes over the wire. Header names are in lower case. */
export interface RecordedResponse {
  readonly status: number;
  readonly headers: OutgoingHttpHeaders;
  readonly body: Uint8Array;
}

/** The version of what stands in an outcome's header. */
const FORMAT = 1;

/**
 * Status and header fields are absent where only the fact was kept. An array is short, and tells HTTP's
 * outcomes from those of calls, which are objects.
 */
type HttpOutcomeHeader =
  | readonly [format: typeof FORMAT]
  | readonly [format: typeof FORMAT, status: number, headers: OutgoingHttpHeaders];

const NOTHING = new Uint8Array();

/** "It is done, the response was not kept": replayed as 409 (contract C70a, C87d). */
export const RESPONSE_NOT_KEPT: Outcome = Object.freeze({
  header: JSON.stringify([FORMAT] satisfies HttpOutcomeHeader),
  body: NOTHING,
});

/** An answer as an outcome; its body is passed on, not copied. */
export function encodeResponse({ status, headers, body }: RecordedResponse): Outcome {
  return { header: JSON.stringify([FORMAT, status, headers] satisfies HttpOutcomeHeader), body };
}

/** The stored answer, or `undefined` where it was not kept or is in a format that this version does not know. */
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
