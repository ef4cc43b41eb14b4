import { StoreConfigurationError } from '../../core/errors/errors.js';
import { nodeClock } from '../../core/util/clock.js';
import { jitteredPause } from '../../core/util/time.js';
import type { CommandDeadline } from './command-deadline.js';

/** What the failure of one attempt says about the statement. */
export type SendFailure =
  /** Not executed; a retry may succeed soon. */
  | 'not_executed'
  /** Not executed, and a retry would fail until the server has resources again. */
  | 'rejected'
  /** It may have been executed, or may still be. */
  | 'unknown'
  /** Not executed, and a retry would fail until the configuration is fixed. */
  | 'misconfigured';

/** A statement was sent, but got no reply. */
export class NoReplyError extends Error {
  override readonly name = 'NoReplyError';

  constructor() {
    super('no reply in time');
  }
}

export class StoreClosedError extends Error {
  override readonly name = 'StoreClosedError';

  constructor() {
    super('the store is closed');
  }
}

const FIRST_PAUSE_MS = 5;
const LONGEST_PAUSE_MS = 50;
/** With less time left, another attempt would only turn "not executed" into "unknown". */
const MIN_TIME_FOR_RETRY_MS = 20;

/** Pauses before the next attempt of a statement, or throws the error of the command. @param attempt - from 0. */
export async function pauseOrThrow(
  failure: SendFailure,
  cause: string,
  attempt: number,
  deadline: CommandDeadline,
): Promise<void> {
  if (failure === 'misconfigured') throw new StoreConfigurationError(cause);
  deadline.mayHaveRun ||= failure === 'unknown';
  const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** attempt, LONGEST_PAUSE_MS);
  if (failure === 'rejected' || deadline.leftMs - pauseMs < MIN_TIME_FOR_RETRY_MS) {
    throw deadline.failure(cause);
  }
  await jitteredPause(pauseMs, nodeClock);
}
