export { socketCall } from '../../../../lib/transports/websocket/socket-call.js';
