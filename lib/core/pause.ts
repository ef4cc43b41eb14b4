/** Milliseconds of a monotonic clock. */
export function monotonicNow(): number {
  return performance.now();
}

/** `ms`, a random part of its second half left out: those who wait for the same thing do not come back all at once. */
export function jittered(ms: number): number {
  return ms * (0.5 + Math.random() / 2);
}

/** Resolves after `ms` milliseconds, {@link jittered}. */
export function jitteredPause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, jittered(ms));
  });
}
