import { monotonicNow } from '../core/pause.js';

/** An instant by two clocks, in milliseconds. */
export interface Instant {
  /** Of a clock that only goes forward, and may stand still while the machine sleeps. */
  readonly monotonic: number;
  /** Of a clock that goes on while the machine sleeps, and may be set to anything. */
  readonly wall: number;
}

/** Tells the time that ages are counted by. */
export type Clock = () => Instant;

export const processClock: Clock = () => ({ monotonic: monotonicNow(), wall: Date.now() });

/**
 * Milliseconds since `start`, by the clock that says more: what has slept is not taken for young, nor what was kept
 * before the clock was set back. A clock that is set forward makes things older than they are.
 */
export function ageMs(start: Instant, now: Instant): number {
  return Math.max(now.monotonic - start.monotonic, now.wall - start.wall);
}
