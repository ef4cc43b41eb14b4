import { AsyncResource } from 'node:async_hooks';
import { monotonicNow } from './time.js';

/** A deadline, which is nearly always canceled before it is due. */
export interface DeadlineListener {
  /** Monotonic. Must not change while the listener is scheduled. */
  readonly dueAt: number;
  /** Called once, no longer scheduled, in the async context that created the timer. Must not throw. */
  onDeadline(): void;
}

/** Per listener, between two scans of all: about a hundred times as long as the scan takes. */
const PAUSE_PER_LISTENER_MS = 0.001;

/** Node's longest timeout. It treats a longer one as 1 ms. */
const LONGEST_WAIT_MS = 2 ** 31 - 1;

/** Many deadlines on one unreferenced timer. A request sets five; one timer each would cost more than its command. */
export class DeadlineTimer {
  private readonly listeners = new Set<DeadlineListener>();
  /** Keeps the timer from retaining the context of a request. */
  private readonly context = new AsyncResource('IdempotencyDeadlines');
  private timer: NodeJS.Timeout | undefined;
  private wakesAt = Infinity;
  private wokeAt = -Infinity;

  schedule(listener: DeadlineListener): void {
    this.listeners.add(listener);
    if (listener.dueAt < this.wakesAt) this.wakeAt(listener.dueAt);
  }

  cancel(listener: DeadlineListener): void {
    // The timer keeps running: an occasional needless wake-up costs less than clearing it on every request.
    this.listeners.delete(listener);
  }

  private wakeAt(dueAt: number): void {
    clearTimeout(this.timer);
    this.wakesAt = Math.max(dueAt, this.wokeAt + this.listeners.size * PAUSE_PER_LISTENER_MS);
    const waitMs = Math.min(Math.max(0, this.wakesAt - monotonicNow()), LONGEST_WAIT_MS);
    this.timer = this.context.runInAsyncScope(startTimer, undefined, waitMs, this);
  }

  /** @internal */
  wake(): void {
    const now = monotonicNow();
    this.wakesAt = Infinity;
    this.wokeAt = now;
    const due: DeadlineListener[] = [];
    let next = Infinity;
    for (const listener of this.listeners) {
      if (listener.dueAt <= now) due.push(listener);
      else next = Math.min(next, listener.dueAt);
    }
    if (next < Infinity) this.wakeAt(next);
    for (const listener of due) {
      // Unless an earlier listener has canceled it.
      if (this.listeners.delete(listener)) listener.onDeadline();
    }
  }
}

function startTimer(waitMs: number, clock: DeadlineTimer): NodeJS.Timeout {
  return setTimeout(wake, waitMs, clock).unref();
}

function wake(clock: DeadlineTimer): void {
  clock.wake();
}
