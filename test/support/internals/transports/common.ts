export { chosenContent } from '../../../../lib/transports/common/bytes-or-json.js';
export {
  fieldLines,
  keyInLines,
  parseKey,
  type KeySyntax,
} from '../../../../lib/transports/common/idempotency-key.js';
