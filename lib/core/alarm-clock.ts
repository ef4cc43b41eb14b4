import { monotonicNow } from './pause.js';

/** Something that is to happen unless it is called off before, which it nearly always is. */
export interface Alarm {
  /** Monotonic. Changed only while the alarm is not set. */
  readonly dueAt: number;
  /** Called once, when the alarm is no longer set. */
  ring(): void;
}

/** The least time between two looks at the alarms that are set, however many fall due one after the other. */
const LEAST_PAUSE_MS = 5;

/**
 * Many deadlines on one timer. A request sets five, of which none is ever due: a timer of its own for each costs more
 * than the command it watches, above all where AsyncLocalStorage is in use. No reason for the process to stay alive.
 */
export class AlarmClock {
  private readonly alarms = new Set<Alarm>();
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
    this.wakesAt = Math.max(dueAt, this.wokeAt + LEAST_PAUSE_MS);
    this.timer = setTimeout(wake, Math.max(0, this.wakesAt - monotonicNow()), this);
    this.timer.unref();
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

function wake(clock: AlarmClock): void {
  clock.wake();
}
