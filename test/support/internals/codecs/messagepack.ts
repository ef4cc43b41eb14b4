export {
  MessagePackEncoder,
  tagged,
  decodeTagged,
} from '../../../../lib/codecs/messagepack/messagepack-encoder.js';
