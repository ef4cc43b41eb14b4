export { encodeAnswer } from '../../../../../lib/transports/http/http-answer.js';
export {
  ResponseShadow,
  type ResponseRecorder,
} from '../../../../../lib/transports/http/recording/response-shadow.js';
