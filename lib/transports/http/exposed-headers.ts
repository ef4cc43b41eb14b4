import { HTTP_DEFAULTS } from './http-options.js';

/** Says of a run without a record that it was one (`onStoreUnavailable: 'execute'`). */
export const STATUS_HEADER = 'Idempotency-Status';

/**
 * The header fields that the layer adds to answers, by their default names. A browser shows a page on
 * another origin none of them unless CORS exposes them; a `replayHeader` of your own belongs to them.
 *
 * @example `app.enableCors({ exposedHeaders: [...EXPOSED_HEADERS] })`
 */
export const EXPOSED_HEADERS: readonly string[] = Object.freeze([
  HTTP_DEFAULTS.replayHeader,
  STATUS_HEADER,
  'Retry-After',
]);
