import type { LeaseLossReason } from './events.js';
import type { LeaseObserver } from './lease-keeper.js';
import { monotonicNow } from './pause.js';

/** Tells of the hard deadline of an attempt that needs no heartbeat, and of the first half of the time to it. */
export class ExecutionWatch {
  private timer: NodeJS.Timeout | undefined;
  private loss: LeaseLossReason | undefined;
  private abortion: AbortController | undefined;

  /** @param startedAt - monotonic, before begin was sent for the first time. */
  constructor(
    private readonly startedAt: number,
    private readonly maxExecutionMs: number,
    private readonly observer: LeaseObserver,
  ) {}

  /** Aborted, with the {@link LeaseLossReason} as its reason, once the attempt can no longer succeed. */
  get signal(): AbortSignal {
    this.abortion ??= new AbortController();
    if (this.loss !== undefined) this.abortion.abort(this.loss);
    return this.abortion.signal;
  }

  /** Milliseconds to the hard deadline. */
  get leftMs(): number {
    return this.startedAt + this.maxExecutionMs - monotonicNow();
  }

  start(): void {
    this.wait(this.leftMs - this.maxExecutionMs / 2, () => {
      this.observer.slow(monotonicNow() - this.startedAt);
      this.wait(this.leftMs, () => {
        this.lose('max_execution');
      });
    });
  }

  stop(): void {
    clearTimeout(this.timer);
  }

  /** Only the first reason counts. */
  lose(reason: LeaseLossReason): void {
    this.stop();
    if (this.loss !== undefined) return;
    this.loss = reason;
    this.abortion?.abort(reason);
    this.observer.leaseLost(reason);
  }

  private wait(ms: number, then: () => void): void {
    this.timer = setTimeout(then, Math.max(0, ms));
    this.timer.unref();
  }
}
