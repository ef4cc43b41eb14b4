import { setTimeout as delay } from 'node:timers/promises';
import { jest } from '@jest/globals';
import { canFakeServerClock, ServerClock } from './server-clock.js';

/** What sockets need, and the wall clock, which belongs to the test. */
const REAL = [
  ...['nextTick', 'setImmediate', 'clearImmediate', 'queueMicrotask', 'Date', 'hrtime'],
] as never;

/**
 * From now on the test drives timers and the monotonic clock of this process, and sockets continue.
 *
 * @param advanceTimers - whether time advances by itself, in small steps, one per iteration of the event
 * loop: never faster than real time, and slower on a busy machine.
 */
export function driveTimers(advanceTimers: boolean): void {
  jest.useFakeTimers({ advanceTimers, doNotFake: REAL });
}

/**
 * Time that the test drives: for the servers started with its {@link env}, and for the engines of this
 * process. In between, the time of this process advances by small steps, one per iteration of the event loop:
 * never faster than real time, and slower on a busy machine. So no lease and no deadline ends because a
 * machine was slow.
 */
export class DrivenTime {
  private clock: ServerClock | undefined;
  private passedMs = 0;

  get env(): Readonly<Record<string, string>> {
    if (canFakeServerClock) this.clock ??= new ServerClock();
    return this.clock?.env ?? {};
  }

  /** The clock of a store in this process. */
  now(): number {
    return Date.now() + this.passedMs;
  }

  /** Before each test. */
  start(): void {
    this.passedMs = 0;
    driveTimers(true);
  }

  /** As if all processes had been paused for this long. */
  async pass(ms: number): Promise<void> {
    this.passedMs += ms;
    this.clock?.pass(ms);
    jest.advanceTimersByTime(ms);
    // A timer may leave the check to the next iteration.
    for (let round = 0; round < 2; round += 1) await new Promise(setImmediate);
  }

  /** After each test. */
  stop(): void {
    jest.useRealTimers();
  }

  /** After the servers have stopped. */
  remove(): void {
    this.clock?.remove();
  }
}

/** Less than a test may take, so that timers are real again when it is torn down. */
const TIMEOUT_MS = 20_000;

export interface StandingTime {
  /** Advances time by this much, and runs everything that is due. */
  readonly pass: (ms: number) => Promise<void>;
  /** Advances time, never faster than real time, until the promise is settled, for example a connection. */
  readonly flow: <Result>(until: Promise<Result>) => Promise<Result>;
}

/**
 * Runs a test in which only the test advances time. What is due within that time is awaited without a limit
 * in real time; what needs more never completes, and fails the test.
 */
export async function inStandingTime(
  runSteps: (time: StandingTime) => Promise<unknown>,
): Promise<void> {
  const ended = new AbortController();
  const { signal } = ended;
  driveTimers(false);
  try {
    const waited = delay(TIMEOUT_MS, 'waited', { signal }).catch(() => undefined);
    const first = await Promise.race([runSteps({ pass, flow }), waited]);
    if (first === 'waited') throw new Error('It needs more time than the test has advanced.');
  } finally {
    ended.abort();
    jest.useRealTimers();
  }
}

const pass = (ms: number) => jest.advanceTimersByTimeAsync(ms);

async function flow<Result>(until: Promise<Result>): Promise<Result> {
  const state = { isSettled: false };
  const settle = () => void (state.isSettled = true);
  until.then(settle, settle);
  while (!state.isSettled) {
    await delay(1);
    await pass(1);
  }
  return until;
}
