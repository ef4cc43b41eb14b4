export { MessagePackForm } from '../../../../lib/codecs/messagepack/messagepack-form.js';
export { tagged, untagged } from '../../../../lib/codecs/messagepack/tagged-form.js';
