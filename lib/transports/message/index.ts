export { kafkaOffset, messageHeader, messageId, type MessageKey } from './keys/message-id.js';
export { payloadField, payloadKey, type PayloadSelection } from './keys/payload-key.js';
