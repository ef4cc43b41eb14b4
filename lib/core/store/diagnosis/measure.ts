import { DEFAULT_COMMAND_TIMEOUT_MS } from '../../options/duration.js';
import { nodeClock, type Clock } from '../../util/clock.js';
import { error, ok, warning, type Finding } from './finding.js';

const ASKED = 100;
const CLOCK_ASKED = 20;

/** Of the median: each request of an idempotent operation waits for two commands. */
const SLOW_MS = 10;

/** A server whose clock differs by more is hardly synchronized. */
const CLOCK_DIFFERENCE_MS = 1_000;
/** The server's clock was set while it was asked if the time between two of its replies is wrong by more. */
const CLOCK_STEP_MS = 50;

/** @param ask - sends one command of the store that changes nothing. */
export async function checkLatency(
  ask: () => Promise<unknown>,
  clock: Clock = nodeClock,
): Promise<Finding> {
  const took: number[] = [];
  for (let i = 0; i < ASKED; i += 1) {
    const sentAt = clock.now();
    await ask();
    took.push(clock.now() - sentAt);
  }
  return evaluateLatency(took);
}

export function evaluateLatency(took: readonly number[]): Finding {
  const sorted = [...took].sort((one, other) => one - other);
  const median = sorted[Math.floor(sorted.length / 2)] ?? 0;
  const worst = sorted.at(-1) ?? 0;
  const found = `${sorted.length} commands, one after the other: median ${milliseconds(median)}, worst ${milliseconds(worst)}.`;
  if (worst > DEFAULT_COMMAND_TIMEOUT_MS) {
    return warning(
      'latency',
      `${found} With the default of storeErrors.commandTimeout (${DEFAULT_COMMAND_TIMEOUT_MS} ms), a request with such a command is rejected. Find out what delays the server or the network.`,
    );
  }
  if (median > SLOW_MS) {
    return warning(
      'latency',
      `${found} A request waits for two commands. Run the store in the same zone as the application.`,
    );
  }
  return ok('latency', found);
}

/** What the server's clock said, and the process's clocks before and after. */
export interface ClockSample {
  /** Milliseconds since the epoch. */
  readonly server: number;
  readonly wall: number;
  /** Monotonic. */
  readonly before: number;
  readonly after: number;
}

/** @param ask - the server's clock, in milliseconds since the epoch. */
export async function checkClock(
  ask: () => Promise<number>,
  clock: Clock = nodeClock,
): Promise<Finding> {
  const samples: ClockSample[] = [];
  for (let i = 0; i < CLOCK_ASKED; i += 1) {
    const wall = clock.wallTime();
    const before = clock.now();
    const server = await ask();
    samples.push({ server, wall, before, after: clock.now() });
  }
  return evaluateClock(samples);
}

export function evaluateClock(samples: readonly ClockSample[]): Finding {
  for (const [i, { server, before, after }] of samples.entries()) {
    const previous = samples[i - 1];
    if (previous === undefined) continue;
    const passed = server - previous.server;
    const tooFew = before - previous.after - passed;
    const tooMany = passed - (after - previous.before);
    if (passed < 0 || tooFew > CLOCK_STEP_MS || tooMany > CLOCK_STEP_MS) {
      return error(
        'clock',
        `The server's clock was set while it was read: ${milliseconds(passed)} passed between two replies. Leases and retention count by this clock: let a time service slew it, and never set it.`,
      );
    }
  }
  const [best] = [...samples].sort((one, other) => roundTrip(one) - roundTrip(other));
  const difference = best === undefined ? 0 : best.server - best.wall - roundTrip(best) / 2;
  const found = `The server's clock is ${Math.round(Math.abs(difference))} ms ${difference < 0 ? 'behind' : 'ahead of'} this process's, and did not step.`;
  return Math.abs(difference) > CLOCK_DIFFERENCE_MS
    ? warning(
        'clock',
        `${found} The store decides by the server's clock alone, but a clock without a time service may be set. Synchronize both.`,
      )
    : ok('clock', found);
}

function roundTrip({ before, after }: ClockSample): number {
  return after - before;
}

function milliseconds(ms: number): string {
  return `${ms < 10 ? ms.toFixed(2) : ms.toFixed(0)} ms`;
}
