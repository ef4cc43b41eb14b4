export { AlarmClock, type Alarm } from '../../../../lib/core/alarm-clock.js';
export {
  IdempotencyOptionsError,
  OperationRejectedError,
  StoreConfigurationError,
  StoreOutcomeUnknownError,
  StoreUnavailableError,
  ValueNotStorableError,
} from '../../../../lib/core/errors.js';
export { missingPeer } from '../../../../lib/core/missing-peer.js';
export { jitteredPause } from '../../../../lib/core/pause.js';
export { ServerClock } from '../../../../lib/core/server-clock.js';
