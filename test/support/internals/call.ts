export {
  decodeOutcome,
  encodeEmissions,
  encodeFailure,
  encodeThrown,
  encodeValue,
  VALUE_NOT_KEPT,
} from '../../../lib/transports/call/call-outcome.js';
export { recoverableCall } from '../../../lib/transports/call/call-recovery.js';
export { CallTransport } from '../../../lib/transports/call/call-transport.js';
export type { Call } from '../../../lib/transports/call/call.js';
export { valueFormat } from '../../../lib/transports/call/outcome-format.js';
export { rejectedResult, RejectionMapper } from '../../../lib/transports/call/rejection-errors.js';
export { fieldKey, headerKey } from '../../../lib/transports/graphql/field-key.js';
export { comparableArguments } from '../../../lib/transports/graphql/graphql-call.js';
export type { GraphqlField } from '../../../lib/transports/graphql/graphql-field.js';
export type { GraphqlRoute } from '../../../lib/transports/graphql/graphql-route.js';
export { clientDisconnectOf } from '../../../lib/transports/graphql/graphql-transport.js';
export { toFieldError } from '../../../lib/transports/graphql/field-error.js';
export { socketCall } from '../../../lib/transports/websocket/socket-call.js';
