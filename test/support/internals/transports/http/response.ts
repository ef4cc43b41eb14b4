export { encodeAnswer } from '../../../../../lib/transports/http/response/http-response.js';
export {
  ResponseShadow,
  type ResponseRecorder,
} from '../../../../../lib/transports/http/response/response-patch.js';
