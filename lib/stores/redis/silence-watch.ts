import type { EndingClient } from './binary-client.js';

/**
 * Notices a connection that owes replies and on which nothing moves: the other side is gone, and nobody said so.
 *
 * ioredis' own `socketTimeout` cannot tell it from a process that stood still itself: after a blocked event loop
 * or a SIGSTOP its timer comes before the replies that are already here, and ends a connection that is well.
 */
export class SilenceWatch {
  private owed = 0;
  private isShakingHands = false;

  constructor(
    private readonly client: EndingClient,
    private readonly limitMs: number,
  ) {
    client.on('connect', () => {
      // What is exchanged before the first command is owed, too.
      this.isShakingHands = true;
      this.sent();
      // ioredis ends its own time limit in the same turn.
      setImmediate(() => {
        this.listen();
      });
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
  }

  /** A command has its reply, or is not going to have one. */
  settled(): void {
    this.owed -= 1;
  }

  private listen(): void {
    const { stream } = this.client;
    if (stream === undefined) return;
    // Node counts what is read and what is written; a long reply on its way is no silence.
    stream.setTimeout(this.limitMs);
    stream.on('timeout', () => {
      const { bytesRead } = stream;
      // What is already here is read first.
      setImmediate(() => {
        const isSilent = this.owed > 0 && stream.bytesRead === bytesRead;
        if (isSilent && this.client.stream === stream) this.client.disconnect(true);
      });
    });
  }
}
