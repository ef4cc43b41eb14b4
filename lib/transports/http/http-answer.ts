import type { OutgoingHttpHeaders } from 'node:http';
import type { Outcome } from '../../core/record.js';

/** One answer as it goes over the wire. Header names are in lower case. */
export interface HttpAnswer {
  readonly status: number;
  readonly headers: OutgoingHttpHeaders;
  readonly body: Uint8Array;
}

/** The version of what stands in an outcome's header; it tells HTTP's outcomes from other transports' too. */
const FORMAT = 1;

interface HttpOutcomeHeader {
  readonly http: typeof FORMAT;
  /** Absent where only the fact was kept. */
  readonly status?: number;
  readonly headers?: OutgoingHttpHeaders;
}

const NOTHING = new Uint8Array();

/** "It is done, the response was not kept": replayed as 409 (contract C70a, C87d). */
export const RESPONSE_NOT_KEPT: Outcome = Object.freeze({
  header: JSON.stringify({ http: FORMAT } satisfies HttpOutcomeHeader),
  body: NOTHING,
});

/** An answer as an outcome; its body is passed on, not copied. */
export function encodeAnswer({ status, headers, body }: HttpAnswer): Outcome {
  return {
    header: JSON.stringify({ http: FORMAT, status, headers } satisfies HttpOutcomeHeader),
    body,
  };
}

/** The stored answer, or `undefined` where it was not kept or is in a format that this version does not know. */
export function decodeAnswer({ header, body }: Outcome): HttpAnswer | undefined {
  try {
    const { http, status, headers = {} } = JSON.parse(header) as Partial<HttpOutcomeHeader>;
    return http === FORMAT && status !== undefined ? { status, headers, body } : undefined;
  } catch {
    return undefined;
  }
}
