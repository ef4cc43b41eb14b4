export { JSON_CODEC, type JsonCodecOptions } from '../../../../lib/codecs/json/json-codec.js';
