import { randomFillSync } from 'node:crypto';

/** Stops a timer from keeping the process alive, as Node's timers do. */
export interface ClockTimer {
  unref(): unknown;
}

/**
 * Time, timers and chance, for one engine. Nothing else that it does is random or depends on the time: with a clock that
 * a seed drives, the same requests have the same history.
 */
export interface Clock {
  /** Monotonic, in milliseconds, with fractions. */
  now(): number;
  /** Milliseconds since the epoch. */
  wallTime(): number;
  /** Calls `callback` once, with `value`, after `ms` milliseconds, at least one: it need not be a closure. */
  setTimeout<Value>(callback: (value: Value) => void, ms: number, value: Value): ClockTimer;
  clearTimeout(timer: ClockTimer | undefined): void;
  /** Calls `callback` once, with `value`, after the input that has already arrived. */
  setImmediate<Value>(callback: (value: Value) => void, value: Value): void;
  /** From 0 to below 1. */
  random(): number;
  /** Fills `bytes` with random ones, for tokens. */
  randomFill(bytes: Uint8Array): void;
}

/** Node's own. Reads the globals at each call, so that fake timers of an application's tests drive it. */
export class NodeClock implements Clock {
  now(): number {
    return performance.now();
  }

  wallTime(): number {
    return Date.now();
  }

  setTimeout<Value>(callback: (value: Value) => void, ms: number, value: Value): ClockTimer {
    return setTimeout(callback, ms, value);
  }

  clearTimeout(timer: ClockTimer | undefined): void {
    clearTimeout(timer as NodeJS.Timeout | undefined);
  }

  setImmediate<Value>(callback: (value: Value) => void, value: Value): void {
    setImmediate(callback, value);
  }

  random(): number {
    return Math.random();
  }

  randomFill(bytes: Uint8Array): void {
    randomFillSync(bytes);
  }
}

export const nodeClock: Clock = new NodeClock();
