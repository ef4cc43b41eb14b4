export { chosenContent } from '../../../../lib/transports/request/bytes-or-json.js';
export {
  fieldLines,
  keyInLines,
  parseKey,
  type KeySyntax,
} from '../../../../lib/transports/request/idempotency-key.js';
