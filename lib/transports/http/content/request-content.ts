import type { IncomingHttpHeaders } from 'node:http';
import { fieldValue } from '../../common/header-fields.js';
import type { RequestContent } from '../../common/request-content.js';

/** The common part of Express' and Fastify's requests that is used here. */
export interface PlatformRequest {
  readonly method: string;
  readonly url: string;
  readonly originalUrl?: string;
  readonly headers: IncomingHttpHeaders;
  readonly body?: unknown;
  readonly rawBody?: unknown;
  readonly user?: unknown;
  /** Node's request, on Fastify. */
  readonly raw?: {
    /** On HTTP/2. */
    readonly stream?: { readonly endAfterHeaders?: boolean };
  };
}

export function contentOf(request: PlatformRequest): RequestContent {
  const url = originForm(request.originalUrl ?? request.url);
  const mark = url.indexOf('?');
  const { method, headers, body, rawBody } = request;
  return {
    method,
    path: mark < 0 ? url : url.slice(0, mark),
    query: mark < 0 ? '' : url.slice(mark + 1),
    headers,
    mediaType: mediaTypeOf(fieldValue(headers, 'content-type')),
    body,
    hasUnreadBody: body === undefined && hasBody(request),
    rawBody: rawBody instanceof Uint8Array ? rawBody : undefined,
  };
}

/** Scheme and authority of a request target in absolute form, which clients send to proxies (RFC 9112 §3.2.2). */
const ABSOLUTE = /^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i;

/** The target in origin form: a request's host is not part of its content (contract C87b). */
function originForm(target: string): string {
  if (target.startsWith('/')) return target;
  const path = target.replace(ABSOLUTE, '');
  // An absolute form without a path means the root.
  return path.length < target.length && !path.startsWith('/') ? `/${path}` : path;
}

/** Whether a body follows the head (RFC 9112 §6.3); on HTTP/2, header fields need not announce it (RFC 9113 §8.1). */
function hasBody({ headers, raw }: PlatformRequest): boolean {
  const length = fieldValue(headers, 'content-length');
  if (length !== undefined) return length !== '0';
  return (
    fieldValue(headers, 'transfer-encoding') !== undefined || raw?.stream?.endAfterHeaders === false
  );
}

function mediaTypeOf(contentType: string | undefined): string {
  if (contentType === undefined) return '';
  const end = contentType.indexOf(';');
  return (end < 0 ? contentType : contentType.slice(0, end)).trim().toLowerCase();
}
