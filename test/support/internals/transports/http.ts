export {
  INITIAL_STATE,
  NO_NATIVE_RESPONSE_GRACE_MS,
  NO_RESPONSE_GRACE_MS,
  settle,
  type SettlementEffect,
  type SettlementRules,
  type SettlementSignal,
  type SettlementState,
} from '../../../../lib/transports/http/http-settlement.js';
export { privateSlot } from '../../../../lib/transports/http/http-transport.js';
export * as problems from '../../../../lib/transports/http/problem.js';
export { preferredWaitMs } from '../../../../lib/transports/http/read-request.js';
export { addedHeaders, isReplayable } from '../../../../lib/transports/http/replay-headers.js';
