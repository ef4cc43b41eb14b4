export { JSON_CODEC } from '../../../../lib/codecs/json/json-codec.js';
