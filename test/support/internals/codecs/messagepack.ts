export {
  MessagePackEncoder,
  tagged,
  decodeTagged,
} from '../../../../lib/codecs/messagepack/messagepack-form.js';
