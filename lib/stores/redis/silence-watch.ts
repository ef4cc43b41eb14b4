import { monotonicNow } from '../../core/pause.js';
import type { EndingClient } from './binary-client.js';

/**
 * Notices a connection that owes replies and gives none: the other side is gone, and nobody said so.
 *
 * ioredis' own `socketTimeout` cannot tell it from a process that stood still itself: after a blocked event loop
 * or a SIGSTOP its timer comes before the replies that are already here, and ends a connection that is well.
 */
export class SilenceWatch {
  private owed = 0;
  /** Since the last reply, or since there was one to wait for. Monotonic. */
  private quietSince = 0;
  private timer: NodeJS.Timeout | undefined;
  private isShakingHands = false;

  constructor(
    private readonly client: EndingClient,
    private readonly limitMs: number,
  ) {
    // What is exchanged before the first command is owed, too.
    client.on('connect', () => {
      this.isShakingHands = true;
      this.sent();
    });
    const shaken = () => {
      if (this.isShakingHands) this.settled();
      this.isShakingHands = false;
    };
    client.on('ready', shaken);
    client.on('close', shaken);
  }

  sent(): void {
    if (this.owed === 0) this.quietSince = monotonicNow();
    this.owed += 1;
    if (this.timer === undefined) this.arm(this.limitMs);
  }

  /** A command has its reply, or is not going to have one. */
  settled(): void {
    this.owed -= 1;
    this.quietSince = monotonicNow();
  }

  stop(): void {
    clearTimeout(this.timer);
  }

  // One timer goes on for as long as commands come, instead of one for each.
  private arm(ms: number): void {
    this.timer = setTimeout(() => {
      // Replies that are already here are read first.
      setImmediate(() => {
        this.judge();
      });
    }, ms).unref();
  }

  private judge(): void {
    this.timer = undefined;
    if (this.owed === 0) return;
    const leftMs = this.quietSince + this.limitMs - monotonicNow();
    if (leftMs <= 0) this.client.disconnect(true);
    this.arm(leftMs > 0 ? leftMs : this.limitMs);
  }
}
