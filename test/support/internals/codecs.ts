export { JSON_CODEC, type JsonCodecOptions } from '../../../lib/codecs/json/json-codec.js';
export { OPTIONS as JSON_OPTIONS } from '../../../lib/codecs/json/json-codec.js';
