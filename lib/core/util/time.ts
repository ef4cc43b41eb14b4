export function monotonicNow(): number {
  return performance.now();
}

/** A random duration from half of `ms` to `ms`, so that waiters of one event do not all retry at once. */
export function jittered(ms: number): number {
  return ms * (0.5 + Math.random() / 2);
}

export function jitteredPause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, jittered(ms));
  });
}

/** Whether `work` succeeds within `ms` milliseconds. Never rejects. */
export function isDoneWithin(ms: number, work: Promise<unknown> | undefined): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms, false);
    const settled = (isDone: boolean) => () => {
      clearTimeout(timer);
      resolve(isDone);
    };
    Promise.resolve(work).then(settled(true), settled(false));
  });
}

/** Estimates the store's clock from its replies by the monotonic clock, not a wall clock (protocol, rule 0). */
export class ServerClock {
  private offset: number | undefined;

  /** Records that the store's clock was at `serverNow` some time before now. */
  observe(serverNow: number): void {
    this.offset = serverNow - performance.now();
  }

  /** The store's time in `inMs`, rounded down, or 0 (no limit) before the first observation. */
  notAfter(inMs: number, now = performance.now()): number {
    return this.offset === undefined ? 0 : Math.floor(now + inMs + this.offset);
  }
}
