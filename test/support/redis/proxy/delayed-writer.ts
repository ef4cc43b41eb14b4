import type { Socket } from 'node:net';

/** One direction of a connection: everything arrives in order, each piece after its delay. */
export class DelayedWriter {
  private readonly underWay: (() => void)[] = [];
  private lastDueAt = 0;

  constructor(private readonly socket: Socket) {}

  send(bytes: Buffer, delayMs: number): void {
    this.after(delayMs, () => {
      if (this.socket.writable) this.socket.write(bytes);
    });
  }

  /** Calls `action` once everything sent before has left. */
  end(action: () => void): void {
    this.after(0, () => {
      if (this.socket.writable) this.socket.end(action);
      else action();
    });
  }

  private after(delayMs: number, action: () => void): void {
    const now = performance.now();
    if (delayMs === 0 && this.underWay.length === 0) {
      action();
      return;
    }
    this.underWay.push(action);
    this.lastDueAt = Math.max(this.lastDueAt, now + delayMs);
    // Timers of one millisecond may fire in any order: each releases the oldest piece.
    setTimeout(() => this.underWay.shift()?.(), this.lastDueAt - now);
  }
}
