export { JSON_CODEC, JsonEncoder } from '../../../../lib/codecs/json/json-codec.js';
