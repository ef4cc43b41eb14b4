import { nodeClock } from '../../../core/util/clock.js';
import { DeadlineTimer, type DeadlineListener } from '../../../core/util/time.js';

/** How long a connection of the store may stall. */
export const STALL_TIMEOUT_MS = 1_000;

const CHECKS_PER_LIMIT = 4;

/** What a connection has moved so far. */
interface MovedBytes {
  readonly bytesRead: number;
  readonly _handle?: { readonly writeQueueSize?: number } | null;
}

export interface WatchedConnection {
  /** The socket in use, or what stands for it, which a new connection replaces. */
  readonly stream?: MovedBytes | undefined;
  on(event: 'connect' | 'ready' | 'close', listener: () => void): unknown;
  disconnect(reconnect: true): void;
}

/**
 * Replaces a connection that has pending replies and moves no bytes: the peer is gone without closing it. The
 * `socketTimeout` of ioredis cannot distinguish this from a pause of this process: after a blocked event loop or a
 * SIGSTOP, its timer fires before received replies are read. Nor does it fire while commands are sent: only bytes
 * accepted or received are progress.
 */
export class StallDetector implements DeadlineListener {
  dueAt = Infinity;
  private readonly deadlines = new DeadlineTimer(nodeClock);
  private readonly checkAfterMs: number;
  private pending = 0;
  private isHandshaking = false;
  private isWatching = false;
  /** Monotonic time of the last progress, or of the first pending command since. */
  private movedAt = -Infinity;
  private seen: SeenStream = { stream: undefined, bytesRead: 0, queued: 0 };

  /** @param limitMs - 0 disables it. */
  constructor(
    private readonly client: WatchedConnection,
    private readonly limitMs: number,
  ) {
    this.checkAfterMs = limitMs / CHECKS_PER_LIMIT;
    client.on('connect', () => {
      // The handshake before the first command is pending, too.
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
    this.seen = readStream(this.client.stream);
    this.movedAt = nodeClock.now();
    if (this.isWatching) return;
    this.isWatching = true;
    this.watchFrom(this.movedAt);
  }

  /** A command has its reply, or will never get one. Also called for commands whose caller has given up. */
  settled(): void {
    this.pending -= 1;
  }

  onDeadline(): void {
    const isLate = nodeClock.now() - this.dueAt > this.checkAfterMs;
    // Read received input first.
    setImmediate(() => {
      this.check(isLate);
    });
  }

  /** @param isLate - this process was paused itself. */
  private check(isLate: boolean): void {
    if (this.pending === 0) {
      this.isWatching = false;
      return;
    }
    const now = nodeClock.now();
    const before = this.seen;
    this.seen = readStream(this.client.stream);
    if (isLate || hasMoved(before, this.seen)) this.movedAt = now;
    if (now - this.movedAt >= this.limitMs) {
      // Pending commands may be sent again on the next connection.
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
  readonly stream: MovedBytes | undefined;
  readonly bytesRead: number;
  /** Bytes written, not yet accepted by the kernel. */
  readonly queued: number;
}

function readStream(stream: MovedBytes | undefined): SeenStream {
  // As `net.Socket` distinguishes a long upload from a stalled connection.
  const queued = stream?._handle?.writeQueueSize ?? 0;
  return { stream, bytesRead: stream?.bytesRead ?? 0, queued };
}

function hasMoved(before: SeenStream, now: SeenStream): boolean {
  return (
    now.stream !== before.stream || now.bytesRead !== before.bytesRead || now.queued < before.queued
  );
}
