import { AlarmClock, type Alarm } from '../../core/alarm-clock.js';
import { monotonicNow } from '../../core/pause.js';
import type { EndingClient } from './binary-client.js';

/**
 * Notices a connection that owes replies and from which nothing comes: the other side is gone, and nobody said so.
 *
 * ioredis' own `socketTimeout` cannot tell it from a process that stood still itself: after a blocked event loop
 * or a SIGSTOP its timer comes before the replies that are already here, and ends a connection that is well. Nor does
 * it end one as long as somebody goes on sending.
 */
export class SilenceWatch implements Alarm {
  /** @internal */
  dueAt = Infinity;
  private readonly alarms = new AlarmClock();
  private owed = 0;
  private isShakingHands = false;
  private settledAt = -Infinity;
  private bytesRead: number | undefined;

  /** @param limitMs - 0 for none. */
  constructor(
    private readonly client: EndingClient,
    private readonly limitMs: number,
  ) {
    client.on('connect', () => {
      // What is exchanged before the first command is owed, too.
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
    this.owed += 1;
    if (this.owed > 1 || this.limitMs === 0) return;
    this.settledAt = monotonicNow();
    this.wait(this.settledAt);
  }

  /** A command has its reply, or never will: not before, though nobody may wait for it any more. */
  settled(): void {
    this.owed -= 1;
    this.settledAt = monotonicNow();
    if (this.owed === 0) this.alarms.callOff(this);
  }

  /** @internal */
  ring(): void {
    // What is already here is read first.
    setImmediate(() => {
      if (this.owed === 0) return;
      const { stream } = this.client;
      const now = monotonicNow();
      if (this.settledAt + this.limitMs > now) this.wait(this.settledAt);
      // A long reply on its way is no silence.
      else if (stream?.bytesRead !== this.bytesRead) this.wait(now);
      else this.client.disconnect(true);
    });
  }

  private wait(since: number): void {
    this.bytesRead = this.client.stream?.bytesRead;
    this.dueAt = since + this.limitMs;
    this.alarms.set(this);
  }
}
