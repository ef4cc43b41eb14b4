export { chosenContent } from '../../../../lib/transports/common/chosen-content.js';
export {
  fieldLines,
  keyInLines,
  parseKey,
  type KeySyntax,
} from '../../../../lib/transports/common/idempotency-key.js';
