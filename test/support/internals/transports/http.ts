export * as problems from '../../../../lib/transports/http/problem.js';
export { preferredWaitMs } from '../../../../lib/transports/http/read-request.js';
export {
  addedHeaders,
  isReplayable,
  CREDENTIALS,
  NO_CREDENTIALS,
  PER_EXCHANGE,
  PER_EXCHANGE_FAMILIES,
} from '../../../../lib/transports/http/replay-headers.js';
export { HttpExecution } from '../../../../lib/transports/http/http-execution.js';
export { STATUS_HEADER } from '../../../../lib/transports/http/http-options.js';
export { replayOf } from '../../../../lib/transports/http/http-replay.js';
export type { HttpRoute } from '../../../../lib/transports/http/http-route.js';
