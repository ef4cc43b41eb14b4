import { keepResponses } from '../core/operation/outcome-policy.js';
import type { KeySyntax } from '../transports/common/idempotency-key.js';
import type { HttpRoute } from '../transports/http/http-route.js';

/** What a client has to know about the key: when it is new, its format, and requests without it. */
export function describeKey({ options }: HttpRoute): string {
  const { keySyntax, maxKeyLength, required, anonymous } = options;
  const sentences = [
    'A key that is new for every intended operation, and the same on every retry of it.',
    formatOf(keySyntax, maxKeyLength),
    required
      ? 'A request without it is rejected with 400.'
      : 'A request without it is not protected: it runs every time it is sent.',
  ];
  if (anonymous === 'ignore') {
    sentences.push('Requests of unauthenticated callers are not protected either.');
  }
  return sentences.join(' ');
}

/** What happens to retries and duplicates, and for how long (contract C82b). */
export function describeRetries({ options, protocol }: HttpRoute): string {
  const { storeBody, replayHeader, fingerprint, keyScope, keep } = options;
  const { retentionMs, whenInProgress, waitTimeoutMs } = protocol;
  const period =
    typeof retentionMs === 'function'
      ? 'For a time that depends on the first response'
      : `For at least ${inWords(retentionMs)} after the first response`;
  const sentences = [
    storeBody
      ? `${period}, a retry gets the same response, marked \`${replayHeader}: true\`, and does not run again; later the key counts as new.`
      : `${period}, a retry gets 409, because the response is not stored, and does not run again; later the key counts as new.`,
    keep === keepResponses
      ? 'A response that is not kept, such as a 5xx, leaves the key free: a retry runs again.'
      : 'A response that the API does not keep leaves the key free: a retry runs again.',
    whenInProgress === 'wait'
      ? `A duplicate of a request in progress waits for its response, up to ${inWords(waitTimeoutMs)}, and then gets 409.`
      : 'A duplicate of a request in progress gets 409.',
  ];
  if (fingerprint !== false) {
    const which = keyScope === 'principal' ? ', even to another operation,' : '';
    sentences.push(`The same key with a different request${which} is rejected with 422.`);
  }
  return sentences.join(' ');
}

function formatOf(syntax: KeySyntax, maxLength: number): string {
  switch (syntax) {
    case 'strict':
      return `A structured-field String (RFC 9651): up to ${maxLength} printable ASCII characters in double quotes.`;
    case 'uuid':
      return 'A UUID, bare or in double quotes, which is the same key.';
    default: {
      const format = `Up to ${maxLength} printable ASCII characters, bare or in double quotes, which is the same key. A key with a space, comma, semicolon or backslash must be in quotes.`;
      return typeof syntax === 'function'
        ? `${format} Keys of another form than the API expects are rejected with 400.`
        : format;
    }
  }
}

const UNITS: readonly (readonly [name: string, milliseconds: number])[] = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1_000],
];

/** Milliseconds in the largest unit that holds them exactly; a single day as 24 hours. */
export function inWords(milliseconds: number): string {
  const [name, length] = UNITS.find(
    ([unit, one]) => milliseconds % one === 0 && (unit !== 'day' || milliseconds > one),
  ) ?? ['millisecond', 1];
  const count = milliseconds / length;
  return count === 1 ? `1 ${name}` : `${count} ${name}s`;
}
