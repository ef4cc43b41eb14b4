import { checkInteger, switchedSettings } from '../../core/util/option-checks.js';

/** When the circuit breaker around the store opens, and when it probes the store. */
export interface BreakerOptions {
  /** Opens when more than this percentage of commands failed within `windowMs`. 1 to 99. @defaultValue 50 */
  readonly errorThresholdPercentage?: number;
  /** Minimum number of commands within `windowMs` before the circuit can open. 1 to 1 000 000. @defaultValue 10 */
  readonly volumeThreshold?: number;
  /**
   * How far back commands count, in milliseconds, 100 to 3 600 000. With a shorter window, failures outnumber earlier
   * successes sooner.
   * @defaultValue 2_000
   */
  readonly windowMs?: number;
  /** Milliseconds from opening, or a failed probe, to the next probe. 10 to 3 600 000. @defaultValue 1_000 */
  readonly probeIntervalMs?: number;
}

export type ResolvedBreakerOptions = Required<BreakerOptions>;

export const BREAKER_DEFAULTS: ResolvedBreakerOptions = Object.freeze({
  errorThresholdPercentage: 50,
  volumeThreshold: 10,
  windowMs: 2_000,
  probeIntervalMs: 1_000,
});

/** @returns `undefined` without a breaker. */
export function resolveBreakerOptions(
  breaker: boolean | BreakerOptions | undefined,
): ResolvedBreakerOptions | undefined {
  const resolved = switchedSettings('breaker', breaker, BREAKER_DEFAULTS);
  if (resolved === undefined) return undefined;
  checkInteger('breaker.errorThresholdPercentage', resolved.errorThresholdPercentage, 1, 99);
  checkInteger('breaker.volumeThreshold', resolved.volumeThreshold, 1, 1_000_000);
  checkInteger('breaker.windowMs', resolved.windowMs, 100, 3_600_000);
  checkInteger('breaker.probeIntervalMs', resolved.probeIntervalMs, 10, 3_600_000);
  return Object.freeze(resolved);
}
