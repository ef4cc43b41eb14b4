export {
  IdempotencyOptionsError,
  OperationRejectedError,
  rejectionError,
  StoreConfigurationError,
  StoreOutcomeUnknownError,
  StoreUnavailableError,
  ValueNotStorableError,
} from '../../../../lib/core/util/errors.js';
export {
  REJECTIONS,
  type Rejection,
  type RejectionCode,
} from '../../../../lib/core/util/rejections.js';
export { nodeClock, type Clock, type ClockTimer } from '../../../../lib/core/util/clock.js';
export { missingPeer } from '../../../../lib/core/util/missing-peer.js';
export {
  resolve,
  resolveGroup,
  type Group,
  type Schema,
} from '../../../../lib/core/util/option-schema.js';
export { SymbolSlot } from '../../../../lib/core/util/symbol-slot.js';
export {
  DeadlineTimer,
  jitteredPause,
  ServerClock,
  type DeadlineListener,
} from '../../../../lib/core/util/time.js';
export { RenewedMap } from '../../../../lib/core/util/renewed-map.js';
