import { keepResponses } from '../core/operation/outcome-policy.js';
import type { KeySyntax } from '../transports/common/idempotency-key.js';
import type { HttpRoute } from '../transports/http/http-route.js';

/** What a client has to know about the key: when it is new, how it is written, what happens without it. */
export function describeKey({ options }: HttpRoute): string {
  const { keySyntax, maxKeyLength, required, anonymous } = options;
  const sentences = [
    'A key that is new for every intended operation, and the same on every retry of it.',
    formatOf(keySyntax, maxKeyLength),
    required
      ? 'A request without it is refused with 400.'
      : 'A request without it is not protected: it runs every time it is sent.',
  ];
  if (anonymous === 'ignore') {
    sentences.push('Requests of callers who are not authenticated are not protected either.');
  }
  return sentences.join(' ');
}

/** What happens to a request that is sent again, and for how long (contract C82b). */
export function describeRetries({ options, protocol }: HttpRoute): string {
  const { storeBody, replayHeader, fingerprint, keyScope, keep } = options;
  const { retentionMs, whenInProgress, waitTimeoutMs } = protocol;
  const period =
    typeof retentionMs === 'function'
      ? 'For a time that depends on the first answer'
      : `For at least ${inWords(retentionMs)} after the first answer`;
  const sentences = [
    storeBody
      ? `${period}, a retry gets that same answer, marked \`${replayHeader}: true\`, and nothing runs again; later the key counts as new.`
      : `${period}, a retry is answered 409, for that answer is not stored, and nothing runs again; later the key counts as new.`,
    keep === keepResponses
      ? 'An answer that is not kept, such as a 5xx, leaves the key free: a retry runs again.'
      : 'An answer that the API does not keep leaves the key free: a retry runs again.',
    whenInProgress === 'wait'
      ? `A retry that comes while the first request is in progress waits for its answer, up to ${inWords(waitTimeoutMs)}, and is answered 409 then.`
      : 'A retry that comes while the first request is in progress is answered 409.',
  ];
  if (fingerprint !== false) {
    const which = keyScope === 'principal' ? ', be it to another operation,' : '';
    sentences.push(`The same key with a different request${which} is refused with 422.`);
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
      const format = `Up to ${maxLength} printable ASCII characters, bare or in double quotes, which is the same key; with a space, a comma, a semicolon or a backslash in it, in quotes only.`;
      return typeof syntax === 'function'
        ? `${format} Keys of another form than the API expects are refused with 400.`
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

/** A whole number of milliseconds in the largest unit that holds it exactly; a single day as 24 hours. */
export function inWords(milliseconds: number): string {
  const [name, length] = UNITS.find(
    ([unit, one]) => milliseconds % one === 0 && (unit !== 'day' || milliseconds > one),
  ) ?? ['millisecond', 1];
  const count = milliseconds / length;
  return count === 1 ? `1 ${name}` : `${count} ${name}s`;
}
