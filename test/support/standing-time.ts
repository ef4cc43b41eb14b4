import { setTimeout as delay } from 'node:timers/promises';
import { jest } from '@jest/globals';

/** What sockets need, and the wall clock, which is the test's own. */
const REAL = [
  ...['nextTick', 'setImmediate', 'clearImmediate', 'queueMicrotask', 'Date', 'hrtime'],
] as never;

/**
 * From now on timers and the monotonic clock of this process are the test's, and sockets go on.
 *
 * @param advanceTimers - whether they go on by themselves, in small steps, one for each turn that the process gets: never
 * faster than real time, and slower on a busy machine.
 */
export function driveTimers(advanceTimers: boolean): void {
  jest.useFakeTimers({ advanceTimers, doNotFake: REAL });
}

/** Less than a test may take, so that timers are real again when it is torn down. */
const PATIENCE_MS = 20_000;

export interface StandingTime {
  /** Lets so much time pass, and everything happen that is due. */
  readonly pass: (ms: number) => Promise<void>;
  /** Lets time go on, never faster than real time, until it is settled: a connection is made, say. */
  readonly flow: <Result>(until: Promise<Result>) => Promise<Result>;
}

/**
 * Plays a test in which no time passes but what it lets pass. Whatever is to come within that is awaited without a limit
 * in real time; what needs more never comes, and fails the test.
 */
export async function inStandingTime(
  play: (time: StandingTime) => Promise<unknown>,
): Promise<void> {
  const ended = new AbortController();
  const { signal } = ended;
  driveTimers(false);
  try {
    const waited = delay(PATIENCE_MS, 'waited', { signal }).catch(() => undefined);
    const first = await Promise.race([play({ pass, flow }), waited]);
    if (first === 'waited') throw new Error('It needs more time than the test has let pass.');
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
