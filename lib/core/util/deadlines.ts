import { AsyncResource } from 'node:async_hooks';
import { monotonicNow } from './time.js';

/** Something that is to happen unless it is called off before, which it nearly always is. */
export interface DeadlineListener {
  /** Monotonic. Changed only while the alarm is not set. */
  readonly dueAt: number;
  /** Called once, when the alarm is no longer set, in the async context that the clock was made in. Never throws. */
  onDeadline(): void;
}

/** Between two looks at all alarms, for each of them: some hundred times as long as a look at it takes. */
const PAUSE_PER_LISTENER_MS = 0.001;

/** The longest that a timer of Node can wait: it takes more for nothing. */
const LONGEST_WAIT_MS = 2 ** 31 - 1;

/**
 * Many deadlines on one timer. A request sets five, of which none is ever due: a timer of its own for each costs more
 * than the command it watches, above all where AsyncLocalStorage is in use. No reason for the process to stay alive.
 */
export class DeadlineTimer {
  private readonly listeners = new Set<DeadlineListener>();
  /** The timer is nobody's, and keeps no request's context alive. */
  private readonly context = new AsyncResource('IdempotencyAlarmClock');
  private timer: NodeJS.Timeout | undefined;
  private wakesAt = Infinity;
  private wokeAt = -Infinity;

  schedule(listener: DeadlineListener): void {
    this.listeners.add(listener);
    if (listener.dueAt < this.wakesAt) this.wakeAt(listener.dueAt);
  }

  cancel(listener: DeadlineListener): void {
    // The timer goes on: it costs less to wake up for nothing, once in a while, than to be stopped by every request.
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
      // Unless the one before has called it off.
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
