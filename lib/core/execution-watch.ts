import type { LeaseLossReason } from './events.js';
import type { LeaseObserver } from './lease-keeper.js';
import { monotonicNow } from './pause.js';

/** Tells of the hard deadline of an attempt that needs no heartbeat, and of the first half of the time to it. */
export class ExecutionWatch {
  private timer: NodeJS.Timeout | undefined;
  private isKnownToBeSlow = false;
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

  /** Whether the attempt can no longer succeed. */
  get isLost(): boolean {
    return this.loss !== undefined;
  }

  /** Begins to watch, or goes on after it was stopped. */
  start(): void {
    if (this.isKnownToBeSlow) {
      this.waitForDeadline();
      return;
    }
    this.wait(this.leftMs - this.maxExecutionMs / 2, () => {
      this.isKnownToBeSlow = true;
      this.observer.slow(monotonicNow() - this.startedAt);
      this.waitForDeadline();
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

  private waitForDeadline(): void {
    this.wait(this.leftMs, () => {
      this.lose('max_execution');
    });
  }

  private wait(ms: number, then: () => void): void {
    this.timer = setTimeout(then, Math.max(0, ms));
    this.timer.unref();
  }
}
