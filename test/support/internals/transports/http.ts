export * as problems from '../../../../lib/transports/http/problem.js';
export { preferredWaitMs } from '../../../../lib/transports/http/read-request.js';
export { addedHeaders, isReplayable } from '../../../../lib/transports/http/replay-headers.js';
