import type { Chunk } from './response-recorder.js';

/** What Node throws where it is given what it cannot send: here, where the caller can still answer otherwise. */
export function checkedChunk(chunk: unknown): Chunk {
  if (typeof chunk === 'string' || chunk instanceof Uint8Array) return chunk;
  throw Object.assign(new TypeError('A chunk must be a string or a Uint8Array'), {
    code: 'ERR_INVALID_ARG_TYPE',
  });
}

/** As {@link checkedChunk}, of a status line. */
export function checkStatusLine(status: number, reason: string | undefined): void {
  if (!(Math.trunc(status) >= 100 && Math.trunc(status) <= 999)) {
    throw Object.assign(new RangeError(`Invalid status code: ${String(status)}`), {
      code: 'ERR_HTTP_INVALID_STATUS_CODE',
    });
  }
  if (reason !== undefined && !REASON.test(reason)) {
    throw Object.assign(new TypeError('Invalid character in statusMessage'), {
      code: 'ERR_INVALID_CHAR',
    });
  }
}

/** RFC 9112 §4: printable ASCII, white space and what once was Latin-1. */
const REASON = /^[\t\x20-\x7e\x80-\xff]*$/;

/** What Node throws at those who come too late. */
export function headersSentError(verb: string): Error {
  return Object.assign(new Error(`Cannot ${verb} headers after they are sent to the client`), {
    code: 'ERR_HTTP_HEADERS_SENT',
  });
}
