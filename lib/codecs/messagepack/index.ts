export { messagePackCodec } from './messagepack-codec.js';
