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
  /** Whether the request came with a body that nobody has read yet: `body` says nothing of it. */
  readonly hasUnreadBody: boolean;
  /** The raw bytes; only with Nest's `rawBody: true`. */
  readonly rawBody: Uint8Array | undefined;
}
