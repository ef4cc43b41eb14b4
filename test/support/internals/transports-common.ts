export { principalOf, toScope } from '../../../lib/transports/common/scope.js';
export { chosenContent } from '../../../lib/transports/common/chosen-content.js';
export { fieldLines, fieldValue } from '../../../lib/transports/common/header-fields.js';
export {
  keyInLines,
  parseKey,
  type KeySyntax,
} from '../../../lib/transports/common/idempotency-key.js';
export { keyText } from '../../../lib/transports/common/key-path.js';
