export { messageKey } from '../../../../lib/transports/message/message-request.js';
export { failureActionOf } from '../../../../lib/transports/message/message-handling.js';
