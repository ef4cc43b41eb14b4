import {
  asError,
  StoreOutcomeUnknownError,
  StoreUnavailableError,
} from '../../core/errors/errors.js';
import type { Clock } from '../../core/util/clock.js';
import { jittered } from '../../core/util/time.js';
import type { RecordRows } from './record-rows.js';
import { FileBusyError, type SqliteFile } from './sqlite-file.js';

/** What a step does within a transaction; `nowUs` is the store's clock in microseconds. */
export type Step<Reply> = (rows: RecordRows, nowUs: number) => Reply;

/**
 * The same by statements of which at most one writes, so that it needs no transaction: a step that
 * commits alone then costs a third less. `undefined` if that did not do; nothing was written then.
 */
export type QuickStep<Reply> = Step<Reply | undefined>;

type Settle = () => void;

interface WaitingStep {
  readonly run: Step<Settle>;
  readonly runQuick: QuickStep<Settle> | undefined;
  readonly reject: (error: Error) => void;
  /** Monotonic. */
  readonly dueAt: number;
}

/** Steps of one transaction: some milliseconds of the event loop, besides the one write to the disk. */
const MOST_AT_ONCE = 128;
const FIRST_PAUSE_MS = 1;
const LONGEST_PAUSE_MS = 25;

/**
 * Executes the steps that requests of one iteration of the event loop bring as one transaction: the disk confirms them together.
 * Each is still one atomic step on its record, and its reply waits for the commit.
 */
export class StepQueue {
  private waiting: WaitingStep[] = [];
  private isScheduled = false;
  private pauseMs = FIRST_PAUSE_MS;

  constructor(
    private readonly file: SqliteFile,
    private readonly clock: Clock,
  ) {}

  run<Reply>(
    timeoutMs: number,
    step: Step<Reply>,
    quickStep?: QuickStep<Reply & object>,
  ): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const settle = (reply: Reply) => () => {
        resolve(reply);
      };
      this.waiting.push({
        run: (rows, nowUs) => settle(step(rows, nowUs)),
        runQuick:
          quickStep &&
          ((rows, nowUs) => {
            const reply = quickStep(rows, nowUs);
            return reply && settle(reply);
          }),
        reject,
        dueAt: this.clock.now() + timeoutMs,
      });
      this.schedule();
    });
  }

  /** Executes what waits, once. What finds the file locked then fails. */
  end(): void {
    while (this.waiting.length > 0) {
      const before = this.waiting.length;
      this.executeSome();
      if (this.waiting.length < before) continue;
      for (const { reject } of this.waiting.splice(0)) reject(locked());
    }
  }

  private schedule(): void {
    if (this.isScheduled || this.waiting.length === 0) return;
    this.isScheduled = true;
    this.clock.setImmediate(execute, this);
  }

  /** @internal */
  execute(): void {
    this.isScheduled = false;
    if (this.executeSome()) {
      this.pauseMs = FIRST_PAUSE_MS;
      this.schedule();
      return;
    }
    if (this.waiting.length === 0) return;
    this.isScheduled = true;
    this.clock.setTimeout(execute, jittered(this.pauseMs, this.clock), this);
    this.pauseMs = Math.min(2 * this.pauseMs, LONGEST_PAUSE_MS);
  }

  /** @returns `false` if the file is locked: then those that still have time wait again. */
  private executeSome(): boolean {
    const steps = this.waiting.splice(0, MOST_AT_ONCE);
    if (steps.length === 0) return true;
    try {
      if (!this.executesAlone(steps)) this.executeTogether(steps);
    } catch (error) {
      if (!(error instanceof FileBusyError)) {
        this.executeApart(steps, asError(error));
        return true;
      }
      const now = this.clock.now();
      const inTime = steps.filter(({ dueAt }) => dueAt > now);
      for (const step of steps) if (step.dueAt <= now) step.reject(locked());
      this.waiting.unshift(...inTime);
      return false;
    }
    return true;
  }

  private executesAlone([step, ...others]: readonly WaitingStep[]): boolean {
    const { runQuick } = step ?? {};
    if (runQuick === undefined || others.length > 0) return false;
    const nowUs = this.nowUs();
    const settle = this.file.runAlone((rows) => runQuick(rows, nowUs));
    settle?.();
    return settle !== undefined;
  }

  /** Clock and record are read under the lock: no later step of another process can have an earlier time. */
  private executeTogether(steps: readonly WaitingStep[]): void {
    const [{ runQuick: tried } = {}, ...others] = steps;
    const isTried = tried !== undefined && others.length === 0;
    const replies = this.file.transact((rows) => {
      const nowUs = this.nowUs();
      return steps.map(
        ({ run, runQuick }) => (isTried ? undefined : runQuick?.(rows, nowUs)) ?? run(rows, nowUs),
      );
    });
    for (const reply of replies) reply();
  }

  private nowUs(): number {
    return Math.round(this.clock.wallTime() * 1_000);
  }

  /** One that the file rejects, such as an outcome that does not fit, fails alone. */
  private executeApart(steps: readonly WaitingStep[], error: Error): void {
    if (steps.length === 1 || error instanceof StoreOutcomeUnknownError) {
      for (const { reject } of steps) reject(error);
      return;
    }
    for (const step of steps) {
      try {
        this.executeTogether([step]);
      } catch (failure) {
        step.reject(asError(failure));
      }
    }
  }
}

function execute(queue: StepQueue): void {
  queue.execute();
}

function locked(): StoreUnavailableError {
  return new StoreUnavailableError('Other processes kept the file of sqliteStore locked.');
}
