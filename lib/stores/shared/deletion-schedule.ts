import type { StoreWarning } from '../../core/store/idempotency-store.js';
import type { Openings } from '../../core/store/openings.js';
import { asError } from '../../core/errors/errors.js';
import { forget } from '../../core/util/maybe-async.js';
import { nodeClock } from '../../core/util/clock.js';
import { isDoneWithin, jittered } from '../../core/util/time.js';
import type {
  DeleteExpired,
  DeletionOptions,
  DeletionReport,
  DeletionRound,
  ResolvedDeletionOptions,
  ResolvedInterval,
} from './deletion.js';

/** Deletes what expired at `from` or later, by the server's clock. */
export type DeleteFrom = (from: number, options: DeleteExpired) => Promise<DeletionRound>;

/** A round begins where the last one ended, and misses rows locked then. Now and then one starts from the oldest. */
const RESCAN_PAUSE_MS = 3_600_000;
/** A batch that takes longer gets no reply from the server. */
const STOP_TIMEOUT_MS = 1_000;

export class DeletionSchedule {
  private readonly stopping = new AbortController();
  private timer: NodeJS.Timeout | undefined;
  private round: Promise<void> | undefined;
  private isFailing = false;
  private reached = 0;
  private rescannedAt = -Infinity;

  constructor(
    /** Of a failed round. */
    private readonly asWarning: (error: Error) => StoreWarning,
    private readonly deleteFrom: DeleteFrom,
    private readonly interval: ResolvedInterval,
    private readonly listeners: Pick<DeletionOptions, 'onDeleted' | 'onDeletionError'>,
    /** Reports a failed round without a listener; returns whether an observer received it. */
    private readonly warned: (warning: StoreWarning) => boolean = () => false,
  ) {}

  /** @returns none where the options leave the deletion to other means. */
  static from(
    { deleteExpired: interval, ...listeners }: ResolvedDeletionOptions,
    asWarning: (error: Error) => StoreWarning,
    deleteFrom: DeleteFrom,
    openings: Openings,
  ): DeletionSchedule | undefined {
    if (interval === false) return undefined;
    return new DeletionSchedule(asWarning, deleteFrom, interval, listeners, (warning) =>
      openings.warned(warning),
    );
  }

  /** The first round follows an interval: processes that start together do not delete together. */
  start(): void {
    if (this.timer === undefined) this.scheduleRound();
  }

  /** Stops for good, and waits for the current batch. */
  async stop(): Promise<void> {
    this.stopping.abort();
    clearTimeout(this.timer);
    await isDoneWithin(STOP_TIMEOUT_MS, this.round, nodeClock);
  }

  private scheduleRound(): void {
    if (this.stopping.signal.aborted) return;
    this.timer = setTimeout(
      () => {
        this.round = this.deleteAndReport().finally(() => {
          this.scheduleRound();
        });
      },
      jittered(this.interval.interval, nodeClock),
    ).unref();
  }

  private async deleteAndReport(): Promise<void> {
    try {
      const report = await this.deleteOnce();
      this.isFailing = false;
      const onDeleted: ((report: DeletionReport) => unknown) | undefined = this.listeners.onDeleted;
      if (report.batches === 0) return;
      forget(onDeleted?.(report), (error) => {
        this.report(asError(error));
      });
    } catch (error) {
      // The store was closed meanwhile.
      if (this.stopping.signal.aborted) return;
      if (!this.isFailing) this.report(asError(error));
      this.isFailing = true;
    }
  }

  private async deleteOnce(): Promise<DeletionReport> {
    const { batchSize, pause: pauseMs } = this.interval;
    const now = nodeClock.now();
    const isRescanDue = now - this.rescannedAt >= RESCAN_PAUSE_MS;
    if (isRescanDue) this.rescannedAt = now;
    const { report, reached } = await this.deleteFrom(isRescanDue ? 0 : this.reached, {
      batchSize,
      pause: pauseMs,
      signal: this.stopping.signal,
    });
    this.reached = Math.max(this.reached, reached);
    return report;
  }

  private report(error: Error): void {
    const warn = (failure: Error) => {
      this.warn(failure);
    };
    const failed = (failure: unknown) => {
      warn(asError(failure));
    };
    const onDeletionError: (error: Error) => unknown = this.listeners.onDeletionError ?? warn;
    try {
      forget(onDeletionError(error), failed);
    } catch (failure) {
      failed(failure);
    }
  }

  private warn(error: Error): void {
    const warning = this.asWarning(error);
    if (this.warned(warning)) return;
    const code = `IDEMPOTENCY_${warning.code.replace(/_failed$/, '').toUpperCase()}`;
    process.emitWarning(warning.message, { type: 'IdempotencyWarning', code });
  }
}
