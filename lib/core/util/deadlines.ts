import { AsyncResource } from 'node:async_hooks';
import { monotonicNow } from './time.js';

/** Something that is to happen unless it is called off before, which it nearly always is. */
export interface Alarm {
  /** Monotonic. Changed only while the alarm is not set. */
  readonly dueAt: number;
  /** Called once, when the alarm is no longer set, in the async context that the clock was made in. Never throws. */
  ring(): void;
}

/** Between two looks at all alarms, for each of them: some hundred times as long as a look at it takes. */
const PAUSE_PER_ALARM_MS = 0.001;

/** The longest that a timer of Node can wait: it takes more for nothing. */
const LONGEST_WAIT_MS = 2 ** 31 - 1;

/**
 * Many deadlines on one timer. A request sets five, of which none is ever due: a timer of its own for each costs more
 * than the command it watches, above all where AsyncLocalStorage is in use. No reason for the process to stay alive.
 */
export class AlarmClock {
  private readonly alarms = new Set<Alarm>();
  /** The timer is nobody's, and keeps no request's context alive. */
  private readonly context = new AsyncResource('IdempotencyAlarmClock');
  private timer: NodeJS.Timeout | undefined;
  private wakesAt = Infinity;
  private wokeAt = -Infinity;

  set(alarm: Alarm): void {
    this.alarms.add(alarm);
    if (alarm.dueAt < this.wakesAt) this.wakeAt(alarm.dueAt);
  }

  callOff(alarm: Alarm): void {
    // The timer goes on: it costs less to wake up for nothing, once in a while, than to be stopped by every request.
    this.alarms.delete(alarm);
  }

  private wakeAt(dueAt: number): void {
    clearTimeout(this.timer);
    this.wakesAt = Math.max(dueAt, this.wokeAt + this.alarms.size * PAUSE_PER_ALARM_MS);
    const waitMs = Math.min(Math.max(0, this.wakesAt - monotonicNow()), LONGEST_WAIT_MS);
    this.timer = this.context.runInAsyncScope(startTimer, undefined, waitMs, this);
  }

  /** @internal */
  wake(): void {
    const now = monotonicNow();
    this.wakesAt = Infinity;
    this.wokeAt = now;
    const due: Alarm[] = [];
    let next = Infinity;
    for (const alarm of this.alarms) {
      if (alarm.dueAt <= now) due.push(alarm);
      else next = Math.min(next, alarm.dueAt);
    }
    if (next < Infinity) this.wakeAt(next);
    for (const alarm of due) {
      // Unless the one before has called it off.
      if (this.alarms.delete(alarm)) alarm.ring();
    }
  }
}

function startTimer(waitMs: number, clock: AlarmClock): NodeJS.Timeout {
  return setTimeout(wake, waitMs, clock).unref();
}

function wake(clock: AlarmClock): void {
  clock.wake();
}
