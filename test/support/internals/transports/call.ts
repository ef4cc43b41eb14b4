export {
  decodeOutcome,
  encodeEmissions,
  encodeFailure,
  encodeThrown,
  encodeValue,
  VALUE_NOT_KEPT,
} from '../../../../lib/transports/call/call-outcome.js';
export { recoverableCall } from '../../../../lib/transports/call/call-recovery.js';
export { CallTransport } from '../../../../lib/transports/call/call-transport.js';
export type { Call } from '../../../../lib/transports/call/call.js';
export { valueFormat } from '../../../../lib/transports/call/outcome-format.js';
export {
  rejectedResult,
  RejectionMapper,
} from '../../../../lib/transports/call/rejection-errors.js';
