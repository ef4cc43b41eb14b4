import type { IncomingHttpHeaders } from 'node:http';

/** What a request says, as far as it may count when two requests are compared. */
export interface RequestContent {
  readonly method: string;
  /** The path that the application sees, without the query. */
  readonly path: string;
  /** The query as it came, without the question mark. */
  readonly query: string;
  readonly headers: IncomingHttpHeaders;
  /** Type and subtype in lower case, without parameters; empty where there is none. */
  readonly mediaType: string;
  /** As parsed by the application; `undefined` where nothing was. */
  readonly body: unknown;
  /** The raw bytes; only with Nest's `rawBody: true`. */
  readonly rawBody: Uint8Array | undefined;
}

/** What Express' and Fastify's requests have in common, as far as it is needed here. */
export interface PlatformRequest {
  readonly method: string;
  readonly url: string;
  readonly originalUrl?: string;
  readonly headers: IncomingHttpHeaders;
  readonly body?: unknown;
  readonly rawBody?: unknown;
  readonly user?: unknown;
}

export function contentOf(request: PlatformRequest): RequestContent {
  const url = request.originalUrl ?? request.url;
  const mark = url.indexOf('?');
  const { method, headers, body, rawBody } = request;
  return {
    method,
    path: mark < 0 ? url : url.slice(0, mark),
    query: mark < 0 ? '' : url.slice(mark + 1),
    headers,
    mediaType: mediaTypeOf(headers['content-type']),
    body,
    rawBody: rawBody instanceof Uint8Array ? rawBody : undefined,
  };
}

/** Whether the body is a form of several parts, which are compared without the boundary between them. */
export function isForm(content: RequestContent): boolean {
  if (!content.mediaType.startsWith('multipart/')) return false;
  return content.body !== undefined || hasUnreadBody(content);
}

/** Whether the request came with a body that nobody has read yet (RFC 9112 §6.3). */
export function hasUnreadBody({ body, headers }: RequestContent): boolean {
  if (body !== undefined) return false;
  const length = headers['content-length'];
  return headers['transfer-encoding'] !== undefined || (length !== undefined && length !== '0');
}

function mediaTypeOf(contentType: string | undefined): string {
  if (contentType === undefined) return '';
  const end = contentType.indexOf(';');
  return (end < 0 ? contentType : contentType.slice(0, end)).trim().toLowerCase();
}
