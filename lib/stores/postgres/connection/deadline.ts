import { StoreOutcomeUnknownError, StoreUnavailableError } from '../../../core/util/errors.js';
import { jitteredPause } from '../../../core/util/time.js';

const LONGEST_PAUSE_MS = 25;

/** The time that one command may take with all its statements and their resends, and what it has done so far. */
export class Deadline {
  /** Whether the command may have had its effect already, or may still have it. */
  mayHaveRun = false;
  /** What the latest copy failed of, in words. */
  lastReason: string | undefined;
  private readonly endsAt: number;
  private rounds = 0;

  constructor(timeoutMs: number) {
    this.endsAt = performance.now() + timeoutMs;
  }

  get leftMs(): number {
    return this.endsAt - performance.now();
  }

  /** Before the command starts over, because the record is no longer as it was seen: the first time at once. */
  async nextRound(): Promise<void> {
    this.rounds += 1;
    if (this.leftMs < LONGEST_PAUSE_MS) throw this.failure('the record changed again and again');
    if (this.rounds > 1) await jitteredPause(Math.min(2 ** this.rounds, LONGEST_PAUSE_MS));
  }

  /** What the command ends with, because of `reason`. */
  failure(reason: string): StoreOutcomeUnknownError | StoreUnavailableError {
    return this.mayHaveRun
      ? new StoreOutcomeUnknownError(`PostgreSQL may have executed the command: ${reason}`)
      : new StoreUnavailableError(`PostgreSQL did not execute the command: ${reason}`);
  }
}
