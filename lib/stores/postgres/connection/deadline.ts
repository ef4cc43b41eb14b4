import { StoreOutcomeUnknownError, StoreUnavailableError } from '../../../core/util/errors.js';
import { nodeClock } from '../../../core/util/clock.js';
import { jitteredPause } from '../../../core/util/time.js';

const LONGEST_PAUSE_MS = 25;

/** The deadline of one command, with all its statements and retries, and its progress. */
export class Deadline {
  /** Whether the command may have been executed, or may still be. */
  mayHaveRun = false;
  lastReason: string | undefined;
  private readonly endsAt: number;
  private rounds = 0;

  constructor(timeoutMs: number) {
    this.endsAt = performance.now() + timeoutMs;
  }

  get leftMs(): number {
    return this.endsAt - performance.now();
  }

  /** Called before the command starts over because the record has changed. The first time does not pause. */
  async nextRound(): Promise<void> {
    this.rounds += 1;
    if (this.leftMs < LONGEST_PAUSE_MS) throw this.failure('the record kept changing');
    if (this.rounds > 1)
      await jitteredPause(Math.min(2 ** this.rounds, LONGEST_PAUSE_MS), nodeClock);
  }

  failure(reason: string): StoreOutcomeUnknownError | StoreUnavailableError {
    return this.mayHaveRun
      ? new StoreOutcomeUnknownError(`PostgreSQL may have executed the command: ${reason}`)
      : new StoreUnavailableError(`PostgreSQL did not execute the command: ${reason}`);
  }
}
