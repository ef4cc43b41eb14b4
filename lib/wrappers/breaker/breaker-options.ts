import { integer, type Group } from '../../core/util/option-schema.js';

/** When the circuit breaker around the store opens, and when it probes the store. */
export interface BreakerOptions {
  /** Opens when more than this percentage of commands failed within `windowMs`. @defaultValue 50, from 1 to 99 */
  readonly errorThresholdPercentage?: number;
  /** Minimum number of commands within `windowMs` before the circuit can open. @defaultValue 10, from 1 to 1_000_000 */
  readonly volumeThreshold?: number;
  /**
   * How far back commands count, in milliseconds. With a shorter window, failures outnumber earlier
   * successes sooner.
   * @defaultValue 2_000, from 100 to 3_600_000
   */
  readonly window?: number;
  /** Milliseconds from opening, or a failed probe, to the next probe. @defaultValue 1_000, from 10 to 3_600_000 */
  readonly probeInterval?: number;
}

export type ResolvedBreakerOptions = Required<BreakerOptions>;

export const BREAKER: Group<BreakerOptions, ResolvedBreakerOptions> = {
  fields: {
    errorThresholdPercentage: integer({ default: 50, min: 1, max: 99 }),
    volumeThreshold: integer({ default: 10, min: 1, max: 1_000_000 }),
    window: integer({ default: 2_000, min: 100, max: 3_600_000 }),
    probeInterval: integer({ default: 1_000, min: 10, max: 3_600_000 }),
  },
  isSwitched: true,
  places: ['module'],
};
