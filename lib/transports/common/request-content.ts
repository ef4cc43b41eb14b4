import type { IncomingHttpHeaders } from 'node:http';

/** The parts of a request that may count when two requests are compared. */
export interface RequestContent {
  readonly method: string;
  /** The path that the application receives, without the query. */
  readonly path: string;
  /** The query as received, without the question mark. */
  readonly query: string;
  readonly headers: IncomingHttpHeaders;
  /** Type and subtype in lower case, without parameters; empty if absent. */
  readonly mediaType: string;
  /** The parsed body; `undefined` if nothing was parsed. */
  readonly body: unknown;
  /** Whether the request has a body that has not been read yet. `body` is `undefined` then. */
  readonly hasUnreadBody: boolean;
  /** The raw bytes; requires Nest's `rawBody: true`. */
  readonly rawBody: Uint8Array | undefined;
}
