import {
  StoreConfigurationError,
  StoreOutcomeUnknownError,
  StoreUnavailableError,
} from '../../core/errors/errors.js';
import { nodeClock } from '../../core/util/clock.js';
import { jitteredPause } from '../../core/util/time.js';

const LONGEST_PAUSE_MS = 25;

/** Rounds that read the same record: other commands would have changed it. */
const ROUNDS_WITHOUT_CHANGE = 5;

/** The deadline of one command, with all its statements and retries, and its progress. */
export abstract class CommandDeadline {
  /** Whether the command may have been executed, or may still be. */
  mayHaveRun = false;
  lastReason: string | undefined;
  private readonly endsAt: number;
  private rounds = 0;
  private unchanged = 0;
  private lastRead: string | undefined;

  /** @param isAlone - no other command, and no lock, touches the record: that of a trial. */
  constructor(
    timeoutMs: number,
    private readonly isAlone = false,
  ) {
    this.endsAt = performance.now() + timeoutMs;
  }

  /** The name of the database system. */
  protected abstract readonly system: string;

  /** What lets a statement change no row of a record that nobody else touches, and its remedy. */
  protected abstract readonly whyUnchanged: string;

  get leftMs(): number {
    return this.endsAt - performance.now();
  }

  /**
   * Called before the command starts over because the record has changed. The first time does not pause.
   * @param found - the record that was read after a statement had changed nothing.
   */
  async nextRound(found?: { readonly record: object | undefined }): Promise<void> {
    this.rounds += 1;
    const read = this.isAlone ? found && JSON.stringify(found) : undefined;
    this.unchanged = read !== undefined && read === this.lastRead ? this.unchanged + 1 : 0;
    this.lastRead = read;
    if (this.leftMs < LONGEST_PAUSE_MS) throw this.endlessRounds();
    if (this.rounds > 1)
      await jitteredPause(Math.min(2 ** this.rounds, LONGEST_PAUSE_MS), nodeClock);
  }

  private endlessRounds(): Error {
    if (this.mayHaveRun || this.unchanged < ROUNDS_WITHOUT_CHANGE)
      return this.failure('the record kept changing');
    return new StoreConfigurationError(
      `${this.system} changes no row of the records, without an error. ${this.whyUnchanged}`,
    );
  }

  failure(reason: string): StoreOutcomeUnknownError | StoreUnavailableError {
    return this.mayHaveRun
      ? new StoreOutcomeUnknownError(`${this.system} may have executed the command: ${reason}`)
      : new StoreUnavailableError(`${this.system} did not execute the command: ${reason}`);
  }
}
