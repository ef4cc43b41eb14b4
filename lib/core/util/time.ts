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

/** Whether `work` is done, and did not fail, within `ms` milliseconds. Never rejects. */
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

/**
 * What this process knows of the store's clock: its distance from the own monotonic clock, taken anew
 * from every reply that carries the time (protocol, rule 0). Neither process' wall clock takes part.
 */
export class ServerClock {
  private offset: number | undefined;

  /** Notes that the store's clock read `serverNow` at some instant before now. */
  observe(serverNow: number): void {
    this.offset = serverNow - performance.now();
  }

  /** The store's time `inMs` from now, rounded down, or 0 (no limit) before anything was observed. */
  notAfter(inMs: number): number {
    return this.offset === undefined ? 0 : Math.floor(performance.now() + inMs + this.offset);
  }
}
