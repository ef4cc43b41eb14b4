import { AsyncResource } from 'node:async_hooks';
import { setImmediate } from 'node:timers';
import { NodeClock, type ClockTimer } from '../core/util/clock.js';

/** Taken now: a test may replace the global one, and its property of the module. */
const afterEvents = setImmediate;

interface Instant {
  /** Monotonic. */
  readonly now: number;
  readonly wallTime: number;
}

/**
 * Node's clock, ahead of it by what a test has moved it. While it is moved, time stands still: each timer that becomes
 * due is called at its own instant, one after the other.
 */
export class DrivenClock extends NodeClock {
  /** In insertion order, which is that of those due at the same instant. */
  protected readonly timers = new Set<DrivenTimer>();
  private immediates = 0;
  private ahead: Instant = { now: 0, wallTime: 0 };
  /** When time was stopped. */
  private stopped: Instant | undefined;
  private movedMs = 0;
  private moves = Promise.resolve();

  override now(): number {
    return this.stopped === undefined
      ? super.now() + this.ahead.now
      : this.stopped.now + this.movedMs;
  }

  override wallTime(): number {
    return this.stopped === undefined
      ? super.wallTime() + this.ahead.wallTime
      : Math.round(this.stopped.wallTime + this.movedMs);
  }

  override setTimeout<Value>(
    callback: (value: Value) => void,
    ms: number,
    value: Value,
  ): ClockTimer {
    const timer = new DrivenTimer(this.now() + Math.max(1, ms), () => {
      callback(value);
    });
    this.timers.add(timer);
    if (this.stopped === undefined) this.run(timer);
    return timer;
  }

  override clearTimeout(timer: ClockTimer | undefined): void {
    if (timer instanceof DrivenTimer && this.timers.delete(timer)) super.clearTimeout(timer.real);
  }

  override setImmediate<Value>(callback: (value: Value) => void, value: Value): void {
    this.immediates += 1;
    afterEvents(() => {
      this.immediates -= 1;
      callback(value);
    });
  }

  /** Whether a timer is left that keeps the process alive. */
  get isAwaited(): boolean {
    for (const { isReferenced } of this.timers) if (isReferenced) return true;
    return false;
  }

  /** Stops time until {@link go}, in whole milliseconds, so that sums of them are exact. */
  stop(): void {
    this.stopped = { now: Math.ceil(this.now()), wallTime: this.wallTime() };
    this.movedMs = 0;
    for (const { real } of this.timers) super.clearTimeout(real);
  }

  go(): void {
    const [now, wallTime] = [this.now(), this.wallTime()];
    this.ahead = { now: now - super.now(), wallTime: wallTime - super.wallTime() };
    this.stopped = undefined;
    for (const timer of this.timers) this.run(timer);
  }

  /** Moves time by `ms`. Resolves when all that was due has been called, and promises have settled. */
  advance(ms: number): Promise<void> {
    return this.queued(async () => {
      const until = this.now() + ms;
      await this.settled();
      for (;;) {
        const next = this.nextTimer();
        if (next === undefined || next.dueAt > until) break;
        await this.moveTo(next);
      }
      this.moveBy(until - this.now());
    });
  }

  /** Moves time to the next timer, if there is one. Resolves when it has been called, and promises have settled. */
  advanceToNext(): Promise<void> {
    return this.queued(async () => {
      const next = this.nextTimer();
      if (next !== undefined) await this.moveTo(next);
    });
  }

  /** Resolves when promises and immediates have been served. Not what waits for the network, for example. */
  async settled(): Promise<void> {
    do {
      await new Promise<void>((resolve) => void afterEvents(resolve));
    } while (this.immediates > 0);
  }

  /** Calls no timer. */
  protected moveBy(ms: number): void {
    this.movedMs += ms;
  }

  /** One move at a time, while time stands still. */
  private queued(move: () => Promise<void>): Promise<void> {
    const moved = this.moves.then(async () => {
      const isStanding = this.stopped !== undefined;
      if (!isStanding) this.stop();
      try {
        await move();
      } finally {
        if (!isStanding) this.go();
      }
    });
    this.moves = moved.catch(() => undefined);
    return moved;
  }

  private async moveTo(timer: DrivenTimer): Promise<void> {
    this.moveBy(Math.max(0, timer.dueAt - this.now()));
    this.call(timer);
    await this.settled();
  }

  private nextTimer(): DrivenTimer | undefined {
    let next: DrivenTimer | undefined;
    for (const timer of this.timers) {
      if (next === undefined || timer.dueAt < next.dueAt) next = timer;
    }
    return next;
  }

  private run(timer: DrivenTimer): void {
    const call = () => {
      this.call(timer);
    };
    timer.real = super.setTimeout(call, timer.dueAt - this.now(), undefined);
    if (!timer.isReferenced) timer.real.unref();
  }

  private call(timer: DrivenTimer): void {
    this.timers.delete(timer);
    timer.call();
  }
}

/** Called in the async context that it was made in, as Node's timers are. */
class DrivenTimer extends AsyncResource implements ClockTimer {
  isReferenced = true;
  /** Node's, unless time stands still. */
  real: ClockTimer | undefined;

  constructor(
    /** Monotonic. */
    readonly dueAt: number,
    private readonly callback: () => void,
  ) {
    super('IdempotencyTestTimer');
  }

  unref(): void {
    this.isReferenced = false;
    this.real?.unref();
  }

  call(): void {
    this.runInAsyncScope(this.callback);
  }
}
