export { JSON_CODEC, JsonForm } from '../../../../lib/codecs/json/json-codec.js';
