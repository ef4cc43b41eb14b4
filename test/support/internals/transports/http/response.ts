export {
  encodeResponse,
  type RecordedResponse,
} from '../../../../../lib/transports/http/response/http-response.js';
export {
  ResponsePatch,
  type ResponseRecorder,
} from '../../../../../lib/transports/http/response/response-patch.js';
