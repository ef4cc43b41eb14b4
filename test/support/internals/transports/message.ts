export { messageKey } from '../../../../lib/transports/message/message-request.js';
export { failureActionOf } from '../../../../lib/transports/message/message-handling.js';
export { MessageTransport } from '../../../../lib/transports/message/message-transport.js';
export type { MessageRoute } from '../../../../lib/transports/message/message-route.js';
