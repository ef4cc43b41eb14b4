import { checkInteger, switchedSettings } from '../../core/util/option-checks.js';

/** When the circuit breaker around the store opens, and when it looks whether it may close again. */
export interface BreakerOptions {
  /**
   * The circuit opens when more than this part of the store's commands failed within `windowMs`, in
   * per cent. 1 to 99.
   * @defaultValue 50
   */
  readonly errorThresholdPercentage?: number;
  /**
   * It never opens on fewer commands than these within `windowMs`. 1 to 1 000 000.
   * @defaultValue 10
   */
  readonly volumeThreshold?: number;
  /**
   * How far back commands count, in milliseconds: the shorter, the sooner failures outnumber the successes before
   * them. 100 to 3 600 000.
   * @defaultValue 2_000
   */
  readonly windowMs?: number;
  /**
   * How long an open circuit waits before it probes the store, and again after a probe that failed, in
   * milliseconds. 10 to 3 600 000.
   * @defaultValue 1_000
   */
  readonly probeIntervalMs?: number;
}

/** {@link BreakerOptions} with every default filled in. */
export type ResolvedBreakerOptions = Required<BreakerOptions>;

/** The defaults of {@link BreakerOptions}. */
export const BREAKER_DEFAULTS: ResolvedBreakerOptions = Object.freeze({
  errorThresholdPercentage: 50,
  volumeThreshold: 10,
  windowMs: 2_000,
  probeIntervalMs: 1_000,
});

/**
 * @returns `undefined` where there is to be no breaker.
 * @throws {@link IdempotencyOptionsError} naming option, range and value.
 */
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
