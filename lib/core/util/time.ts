import { AsyncResource } from 'node:async_hooks';
import type { Clock, ClockTimer } from './clock.js';

/** A random duration from half of `ms` to `ms`, so that waiters of one event do not all retry at once. */
export function jittered(ms: number, clock: Clock): number {
  return ms * (0.5 + clock.random() / 2);
}

/** Resolves `ms` milliseconds after `startedAt` (monotonic): at once, if they are over. */
export function pauseUntil(startedAt: number, ms: number, clock: Clock): Promise<void> {
  const left = startedAt + ms - clock.now();
  if (left <= 0) return Promise.resolve();
  return new Promise((resolve) => {
    clock.setTimeout(resolve, left, undefined);
  });
}

export function jitteredPause(ms: number, clock: Clock): Promise<void> {
  return new Promise((resolve) => {
    clock.setTimeout(resolve, jittered(ms, clock), undefined);
  });
}

/** Whether `work` succeeds within `ms` milliseconds. Never rejects. */
export function isDoneWithin(
  ms: number,
  work: Promise<unknown> | undefined,
  clock: Clock,
): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = clock.setTimeout(resolve, ms, false);
    const settled = (isDone: boolean) => () => {
      clock.clearTimeout(timer);
      resolve(isDone);
    };
    Promise.resolve(work).then(settled(true), settled(false));
  });
}

/** Rejects with `late` if `work` takes longer than `ms` milliseconds: a driver waits for a frozen server for ever. */
export async function within<Result>(
  ms: number,
  work: Promise<Result>,
  clock: Clock,
  late = new Error('no reply in time'),
): Promise<Result> {
  let timer: ClockTimer | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = clock.setTimeout(reject, ms, late);
  });
  try {
    return await Promise.race([work, timeout]);
  } finally {
    clock.clearTimeout(timer);
  }
}

/** Estimates the store's clock from its replies by the monotonic clock, not a wall clock (protocol, rule 0). */
export class ServerClock {
  private offset: number | undefined;

  /** Records that the store's clock was at `serverNow` some time before `now`, which is monotonic. */
  observe(serverNow: number, now: number): void {
    this.offset = serverNow - now;
  }

  /** The store's time in `inMs`, rounded down, or 0 (no limit) before the first observation. */
  notAfter(inMs: number, now: number): number {
    return this.offset === undefined ? 0 : Math.floor(now + inMs + this.offset);
  }
}

/** A deadline, which is nearly always canceled before it is due. On one timer at a time. */
export interface DeadlineListener {
  /** Monotonic. Must not change while the listener is scheduled. */
  readonly dueAt: number;
  /** @internal The timer's own: its neighbours while it is scheduled. */
  previousDeadline?: DeadlineListener | undefined;
  /** @internal */
  nextDeadline?: DeadlineListener | undefined;
  /** Called once, no longer scheduled, in the async context that created the timer. Must not throw. */
  onDeadline(): void;
}

/** Per listener, between two scans of all: about a hundred times as long as the scan takes. */
const PAUSE_PER_LISTENER_MS = 0.001;

/** Node's longest timeout. It treats a longer one as 1 ms. */
const LONGEST_WAIT_MS = 2 ** 31 - 1;

/** Before the first listener, and after the last one. */
class Ends implements DeadlineListener {
  readonly dueAt = Infinity;
  previousDeadline: DeadlineListener = this;
  nextDeadline: DeadlineListener = this;

  onDeadline(): void {
    // Never due.
  }
}

/**
 * Many deadlines on one unreferenced timer. A request sets five; one timer each would cost more than its command. They
 * are a list, not a set: each time a set outgrows its table, the old one keeps the new one from being collected with the
 * young generation, and with it what it holds.
 */
export class DeadlineTimer {
  private readonly ends = new Ends();
  private count = 0;
  /** Keeps the timer from retaining the context of a request. */
  private readonly context = new AsyncResource('IdempotencyDeadlines');
  private timer: ClockTimer | undefined;
  private wakesAt = Infinity;
  private wokeAt = -Infinity;

  constructor(private readonly clock: Clock) {}

  schedule(listener: DeadlineListener): void {
    if (listener.nextDeadline === undefined) {
      const { ends } = this;
      const { previousDeadline: last } = ends;
      listener.previousDeadline = last;
      listener.nextDeadline = ends;
      last.nextDeadline = ends.previousDeadline = listener;
      this.count += 1;
    }
    if (listener.dueAt < this.wakesAt) this.wakeAt(listener.dueAt);
  }

  /** @returns whether it was scheduled. */
  cancel(listener: DeadlineListener): boolean {
    const { previousDeadline, nextDeadline } = listener;
    if (previousDeadline === undefined || nextDeadline === undefined) return false;
    previousDeadline.nextDeadline = nextDeadline;
    nextDeadline.previousDeadline = previousDeadline;
    listener.previousDeadline = listener.nextDeadline = undefined;
    this.count -= 1;
    // The timer keeps running: an occasional needless wake-up costs less than clearing it on every request.
    return true;
  }

  private wakeAt(dueAt: number): void {
    const { clock } = this;
    clock.clearTimeout(this.timer);
    this.wakesAt = Math.max(dueAt, this.wokeAt + this.count * PAUSE_PER_LISTENER_MS);
    const waitMs = Math.min(Math.max(0, this.wakesAt - clock.now()), LONGEST_WAIT_MS);
    this.timer = this.context.runInAsyncScope(() => clock.setTimeout(wake, waitMs, this));
    this.timer.unref();
  }

  /** @internal */
  wake(): void {
    const now = this.clock.now();
    this.wakesAt = Infinity;
    this.wokeAt = now;
    const due: DeadlineListener[] = [];
    const { ends } = this;
    let next = Infinity;
    for (
      let listener = ends.nextDeadline;
      listener !== ends;
      listener = listener.nextDeadline ?? ends
    ) {
      if (listener.dueAt <= now) due.push(listener);
      else next = Math.min(next, listener.dueAt);
    }
    if (next < Infinity) this.wakeAt(next);
    for (const listener of due) {
      // Unless an earlier listener has canceled it.
      if (this.cancel(listener)) listener.onDeadline();
    }
  }
}

function wake(deadlines: DeadlineTimer): void {
  deadlines.wake();
}
