import type { Duration, InMilliseconds } from '../../core/options/duration.js';
import { duration, integer, type Group } from '../../core/options/option-schema.js';

/** When the circuit breaker around the store opens, and when it probes the store. */
export interface BreakerOptions {
  /** Opens when more than this percentage of commands failed within `window`. @defaultValue 50, from 1 to 99 */
  readonly errorThresholdPercentage?: number;
  /** Minimum number of commands within `window` before the circuit can open. @defaultValue 10, from 1 to 1_000_000 */
  readonly volumeThreshold?: number;
  /**
   * How far back commands count. With a shorter window, failures outnumber earlier successes sooner.
   * @defaultValue '2s', from '100ms' to '1h'
   */
  readonly window?: Duration;
  /** How long after opening, or a failed probe, the next probe follows. @defaultValue '1s', from '10ms' to '1h' */
  readonly probeInterval?: Duration;
}

export type ResolvedBreakerOptions = InMilliseconds<Required<BreakerOptions>>;

export const BREAKER: Group<BreakerOptions, ResolvedBreakerOptions> = {
  fields: {
    errorThresholdPercentage: integer({ default: 50, min: 1, max: 99 }),
    volumeThreshold: integer({ default: 10, min: 1, max: 1_000_000 }),
    window: duration({ default: '2s', min: '100ms', max: '1h' }),
    probeInterval: duration({ default: '1s', min: '10ms', max: '1h' }),
  },
  isSwitched: true,
  places: ['module'],
};
