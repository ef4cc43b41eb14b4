import type { Clock, ClockTimer } from '../../../test/support/internals/core.js';
import { IMMEDIATES, TIMERS, type Scheduled } from './scheduler.js';
import type { Contact } from './simulated-process.js';

/** What a clock needs of the process that it belongs to. */
export interface Ticking {
  readonly isAlive: boolean;
  /** Milliseconds since the start of the episode, later than the scheduler's while the process blocks. */
  time(): number;
  post(at: number, phase: typeof TIMERS | typeof IMMEDIATES, run: () => void): Scheduled;
  /** @returns whether the process has died. */
  contact(contact: Contact): boolean;
  draw(): number;
}

class SimulatedTimer implements ClockTimer {
  event: Scheduled | undefined;

  unref(): this {
    return this;
  }
}

/** Node's longest timeout: a longer one is treated as 1 ms. */
const LONGEST_MS = 2 ** 31 - 1;

/** The clock of one process: of a rate and an origin of its own. */
export class ProcessClock implements Clock {
  /** Those that have neither fired nor been cleared. */
  readonly timers = new Set<SimulatedTimer>();

  constructor(
    private readonly process: Ticking,
    private readonly rate: number,
    private readonly origin: number,
  ) {}

  now(): number {
    return this.origin + this.process.time() * this.rate;
  }

  /** Wrong by hours: no decision may depend on it. */
  wallTime(): number {
    return 1.7e12 + this.origin * 1_000 + this.process.time();
  }

  setTimeout<Value>(callback: (value: Value) => void, ms: number, value: Value): ClockTimer {
    const timer = new SimulatedTimer();
    const { process } = this;
    if (!process.isAlive) return timer;
    // As Node's: whole milliseconds, which may end up to one too early, and later than that.
    const whole = ms >= 1 && ms <= LONGEST_MS ? Math.trunc(ms) : 1;
    const at = process.time() + Math.max(0.1, whole / this.rate + process.draw() * 1.5 - 0.5);
    this.timers.add(timer);
    timer.event = process.post(at, TIMERS, () => {
      this.timers.delete(timer);
      callback(value);
    });
    return timer;
  }

  clearTimeout(timer: ClockTimer | undefined): void {
    if (!(timer instanceof SimulatedTimer) || timer.event === undefined) return;
    timer.event.run = undefined;
    this.timers.delete(timer);
  }

  setImmediate<Value>(callback: (value: Value) => void, value: Value): void {
    const { process } = this;
    if (!process.isAlive) return;
    process.post(process.time(), IMMEDIATES, () => {
      callback(value);
    });
  }

  random(): number {
    this.process.contact('random');
    return this.process.draw();
  }

  randomFill(bytes: Uint8Array): void {
    this.process.contact('random');
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    for (let index = 0; index + 4 <= bytes.length; index += 4) {
      view.setUint32(index, Math.floor(this.process.draw() * 2 ** 32));
    }
  }
}
