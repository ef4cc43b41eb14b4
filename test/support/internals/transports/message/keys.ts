export {
  defaultMessageKey,
  headerOf,
  kafkaOffset,
  keyText,
  messageHeader,
  messageId,
} from '../../../../../lib/transports/message/keys/message-id.js';
export {
  payloadField,
  payloadKey,
  type PayloadSelection,
} from '../../../../../lib/transports/message/keys/payload-key.js';
