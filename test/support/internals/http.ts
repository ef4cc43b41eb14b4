export * as problems from '../../../lib/transports/http/problem.js';
export { preferredWaitMs } from '../../../lib/transports/http/read-request.js';
export { addedHeaders, isReplayable } from '../../../lib/transports/http/replay-headers.js';
export { HttpExecution } from '../../../lib/transports/http/http-execution.js';
export { STATUS_HEADER } from '../../../lib/transports/http/http-options.js';
export { replayOf } from '../../../lib/transports/http/http-replay.js';
export type { HttpRoute } from '../../../lib/transports/http/http-route.js';
export { fastifyForm } from '../../../lib/transports/http/content/fastify-form.js';
export { formContent } from '../../../lib/transports/http/content/form-content.js';
export type { ParsedRequest } from '../../../lib/transports/http/content/form.js';
export { multerForm } from '../../../lib/transports/http/content/multer-form.js';
export { contentOf } from '../../../lib/transports/http/content/request-content.js';
export { requestFingerprint } from '../../../lib/transports/http/content/request-fingerprint.js';
export {
  encodeResponse,
  type RecordedResponse,
} from '../../../lib/transports/http/response/http-response.js';
export {
  ResponsePatch,
  type ResponseRecorder,
} from '../../../lib/transports/http/response/response-patch.js';
