export { messageKey } from '../../../lib/transports/message/message-request.js';
export { failureActionOf } from '../../../lib/transports/message/message-handling.js';
export { MessageTransport } from '../../../lib/transports/message/message-transport.js';
export type { MessageRoute } from '../../../lib/transports/message/message-route.js';
export {
  defaultMessageKey,
  headerOf,
  kafkaOffset,
  messageHeader,
  messageId,
} from '../../../lib/transports/message/keys/message-id.js';
export {
  payloadField,
  payloadKey,
  type PayloadSelection,
} from '../../../lib/transports/message/keys/payload-key.js';
export { patternOf, rpcSource } from '../../../lib/transports/message/source/rpc-context.js';
