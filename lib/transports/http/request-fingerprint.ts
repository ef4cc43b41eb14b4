import type { ExecutionContext } from '@nestjs/common';
import { canonicalJson, checkDepth, ContentNotComparableError } from '../../core/canonical-json.js';
import { IdempotencyOptionsError } from '../../core/errors.js';
import { fingerprint, NO_FINGERPRINT } from '../../core/fingerprint.js';
import type { Fingerprint } from '../../core/record.js';
import { selectMembers } from './content-selection.js';
import type { FingerprintOption } from './http-options.js';
import { hasUnreadBody, type RequestContent } from './request-content.js';

/** Computes the fingerprint of a request for one route. */
export type RequestFingerprint = (
  content: RequestContent,
  context: ExecutionContext,
) => Fingerprint;

/**
 * Chooses once per route how its requests are compared (contract C31–C48). The operation's name is part
 * of every fingerprint, so that with `keyScope: 'principal'` another route is another content.
 *
 * The function that is returned throws {@link ContentNotComparableError} for content that has no
 * canonical form.
 */
export function requestFingerprint(
  operation: string,
  option: FingerprintOption,
): RequestFingerprint {
  if (option === false) return () => NO_FINGERPRINT;
  if (typeof option === 'function') {
    return (content, context) => fingerprint([operation, bytesOrJson(option(content, context))]);
  }
  if (option === 'bytes') return (content) => ofContent(operation, content, rawBytes(content), []);
  if (option === 'canonical') {
    return (content) => ofContent(operation, content, bodyText(content, content.body), []);
  }
  const { include, exclude = [], headers = [] } = option;
  const names = headers.map((name) => name.toLowerCase()).sort();
  return (content) => {
    checkDepth(content.body);
    const body = selectMembers(content.body, include, exclude);
    return ofContent(operation, content, bodyText(content, body), fieldsOf(content, names));
  };
}

function ofContent(
  operation: string,
  { method, path, query, mediaType }: RequestContent,
  body: string | Uint8Array,
  fields: readonly string[],
): Fingerprint {
  const parts = [operation, method, path, canonicalQuery(query), mediaType, body];
  return fingerprint(fields.length === 0 ? parts : [...parts, ...fields]);
}

/** The query as a multiset by name: only the order of equal names counts (contract C38, C39). */
function canonicalQuery(query: string): string {
  if (query === '') return '';
  const members = new URLSearchParams(query);
  members.sort();
  return members.toString();
}

function bodyText(content: RequestContent, body: unknown): string | Uint8Array {
  if (hasUnreadBody(content)) {
    throw new ContentNotComparableError(
      'The request has a body that nothing has parsed before the interceptors run. Register a parser for its media type, or give a function as the option "fingerprint".',
    );
  }
  if (content.mediaType.startsWith('multipart/')) {
    throw new ContentNotComparableError(
      'The files of a multipart request are not part of its parsed body. Give a function as the option "fingerprint" that answers with what counts of them.',
    );
  }
  return bytesOrJson(body);
}

function bytesOrJson(value: unknown): string | Uint8Array {
  if (value instanceof Promise) {
    throw new IdempotencyOptionsError(
      'The function given as the option "fingerprint" returned a promise: it has to answer at once.',
    );
  }
  return value instanceof Uint8Array ? value : canonicalJson(value);
}

function rawBytes(content: RequestContent): Uint8Array {
  if (content.rawBody !== undefined) return content.rawBody;
  if (content.body === undefined && !hasUnreadBody(content)) return new Uint8Array();
  throw new IdempotencyOptionsError(
    "The option \"fingerprint\" is 'bytes', but the request's raw bytes are not there: create the application with { rawBody: true }, and register a raw parser for other media types than JSON and forms.",
  );
}

function fieldsOf({ headers }: RequestContent, names: readonly string[]): string[] {
  return names.map((name) => {
    const value = headers[name];
    return value === undefined ? name : `${name}:${Array.isArray(value) ? value.join() : value}`;
  });
}
