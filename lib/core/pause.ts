/** Milliseconds of a monotonic clock. */
export function monotonicNow(): number {
  return performance.now();
}

/**
 * Resolves after `ms` milliseconds, a random part of its second half left out: those who wait for the
 * same thing do not come back all at once.
 */
export function jitteredPause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms * (0.5 + Math.random() / 2));
  });
}
