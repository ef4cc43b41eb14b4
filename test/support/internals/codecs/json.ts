export { JSON_CODEC } from '../../../../lib/codecs/json/json-codec.js';
export { JsonForm } from '../../../../lib/codecs/json/json-form.js';
