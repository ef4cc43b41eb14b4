export { keyText } from '../../../../../lib/transports/message/keys/key-text.js';
export { headerOf } from '../../../../../lib/transports/message/keys/message-headers.js';
export { messageHeader } from '../../../../../lib/transports/message/keys/message-header.js';
export { defaultMessageKey } from '../../../../../lib/transports/message/keys/default-message-key.js';
export { kafkaOffset } from '../../../../../lib/transports/message/keys/kafka-offset.js';
export { messageId } from '../../../../../lib/transports/message/keys/message-id.js';
export { payloadField } from '../../../../../lib/transports/message/keys/payload-field.js';
export {
  payloadKey,
  type PayloadSelection,
} from '../../../../../lib/transports/message/keys/payload-key.js';
