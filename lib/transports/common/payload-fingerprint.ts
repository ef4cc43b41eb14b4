import type { ExecutionContext } from '@nestjs/common';
import { bytesOrJson, checkDepth } from '../../core/record/canonical-json.js';
import { selectMembers } from '../../core/record/content-selection.js';
import { fingerprint, NO_FINGERPRINT } from '../../core/record/fingerprint.js';
import type { Fingerprint } from '../../core/record/record.js';
import { askOption } from './ask-option.js';
import { chosenContent } from './chosen-content.js';
import type { RequestContent } from './request-content.js';
import type { FingerprintOption } from './request-options.js';

/** Computes the fingerprint of a payload: a message, or the arguments of a GraphQL field. */
export type PayloadFingerprint = (
  content: RequestContent,
  context: ExecutionContext,
) => Fingerprint;

/**
 * Chooses once per handler how its payloads are compared. They have no raw bytes and no common header fields, so
 * `'bytes'` means `'canonical'`, and `headers` applies to HTTP only. The returned function throws
 * {@link ContentNotComparableError} for content without a canonical form.
 */
export function payloadFingerprint(
  operation: string,
  option: FingerprintOption,
): PayloadFingerprint {
  if (option === false) return () => NO_FINGERPRINT;
  if (typeof option === 'function') {
    return (content, context) => {
      const chosen = askOption('fingerprint', operation, () => option(content, context));
      return fingerprint([operation, chosenContent(chosen, 'fingerprint', operation)]);
    };
  }
  if (typeof option === 'string') {
    return ({ path, body }) => fingerprint([operation, path, bytesOrJson(body)]);
  }
  const { include, exclude = [] } = option;
  return ({ path, body }) => {
    // Bytes, strings and numbers have no members to select, so they count as a whole.
    const hasMembers = typeof body === 'object' && body !== null && !(body instanceof Uint8Array);
    if (!hasMembers) return fingerprint([operation, path, bytesOrJson(body)]);
    checkDepth(body);
    return fingerprint([operation, path, bytesOrJson(selectMembers(body, include, exclude))]);
  };
}

export function payloadContent(path: string, body: unknown): RequestContent {
  return {
    method: '',
    path,
    query: '',
    headers: {},
    mediaType: '',
    body,
    hasUnreadBody: false,
    rawBody: undefined,
  };
}
