export { socketCall } from '../../../../lib/transports/socket/socket-call.js';
