import { DeadlineTimer, type DeadlineListener } from '../../../core/util/deadlines.js';
import { monotonicNow } from '../../../core/util/time.js';
import type { ConnectionStream, EndingClient } from './client-types.js';

/** How often it is looked within the time that a connection may be silent. */
const CHECKS_PER_LIMIT = 4;

/**
 * Notices a connection that owes replies and on which nothing moves: the other side is gone, and nobody said so.
 *
 * ioredis' own `socketTimeout` cannot tell it from a process that stood still itself: after a blocked event loop
 * or a SIGSTOP its timer comes before the replies that are already here, and ends a connection that is well. Nor does
 * it end one as long as somebody goes on sending: what is sent is no sign of life, only what is taken and what comes.
 */
export class StallDetector implements DeadlineListener {
  /** @internal */
  dueAt = Infinity;
  private readonly deadlines = new DeadlineTimer();
  private readonly checkAfterMs: number;
  private pending = 0;
  private isHandshaking = false;
  private isWatching = false;
  /** Monotonic instant of the last sign of life, or of what has been owed since. */
  private movedAt = -Infinity;
  private seen: SeenStream = { stream: undefined, bytesRead: 0, queued: 0 };

  /** @param limitMs - 0 for none. */
  constructor(
    private readonly client: EndingClient,
    private readonly limitMs: number,
  ) {
    this.checkAfterMs = limitMs / CHECKS_PER_LIMIT;
    client.on('connect', () => {
      // What is exchanged before the first command is owed, too.
      if (!this.isHandshaking) this.sent();
      this.isHandshaking = true;
    });
    const onHandshakeEnd = () => {
      if (this.isHandshaking) this.settled();
      this.isHandshaking = false;
    };
    client.on('ready', onHandshakeEnd);
    client.on('close', onHandshakeEnd);
  }

  sent(): void {
    this.pending += 1;
    if (this.pending > 1 || this.limitMs === 0) return;
    this.movedAt = monotonicNow();
    this.seen = readStream(this.client.stream);
    if (this.isWatching) return;
    this.isWatching = true;
    this.watchFrom(this.movedAt);
  }

  /** A command has its reply, or never will: not before, though nobody may wait for it any more. */
  settled(): void {
    this.pending -= 1;
  }

  /** @internal */
  onDeadline(): void {
    const isLate = monotonicNow() - this.dueAt > this.checkAfterMs;
    // What is already here is read first.
    setImmediate(() => {
      this.check(isLate);
    });
  }

  /** @param isLate - this process stood still itself, and so did what it would have sent. */
  private check(isLate: boolean): void {
    if (this.pending === 0) {
      this.isWatching = false;
      return;
    }
    const now = monotonicNow();
    const before = this.seen;
    this.seen = readStream(this.client.stream);
    if (isLate || hasMoved(before, this.seen)) this.movedAt = now;
    if (now - this.movedAt >= this.limitMs) {
      // What it owed may be sent again on the next one.
      this.movedAt = now;
      this.client.disconnect(true);
    }
    this.watchFrom(now);
  }

  private watchFrom(now: number): void {
    this.dueAt = now + this.checkAfterMs;
    this.deadlines.schedule(this);
  }
}

interface SeenStream {
  readonly stream: ConnectionStream | undefined;
  readonly bytesRead: number;
  /** What was written and not yet taken. */
  readonly queued: number;
}

function readStream(stream: ConnectionStream | undefined): SeenStream {
  // As `net.Socket` tells a long upload from a silent connection.
  const queued = stream?._handle?.writeQueueSize ?? 0;
  return { stream, bytesRead: stream?.bytesRead ?? 0, queued };
}

function hasMoved(before: SeenStream, now: SeenStream): boolean {
  return (
    now.stream !== before.stream || now.bytesRead !== before.bytesRead || now.queued < before.queued
  );
}
