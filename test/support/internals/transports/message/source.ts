export { patternOf, rpcSource } from '../../../../../lib/transports/message/source/rpc-context.js';
