export {
  MessagePackForm,
  tagged,
  untagged,
} from '../../../../lib/codecs/messagepack/messagepack-form.js';
