export { patternOf, rpcSource } from '../../../../../lib/transports/message/rpc-context.js';
