import type { EndingClient } from './binary-client.js';

const PAUSE_MS = 100;

/**
 * Connects again when ioredis has given a connection up for good. It does so when a Sentinel's news of a
 * failover (`failoverDetector`) comes while it is connecting: without this, every operation would be refused
 * until the process is started again.
 */
export class Revival {
  private isOver = false;
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly client: EndingClient) {
    client.on('end', () => {
      if (this.isOver) return;
      // Should it fail, the connection ends once more.
      this.timer = setTimeout(() => {
        this.client.connect().catch(() => undefined);
      }, PAUSE_MS).unref();
    });
  }

  /** From now on an end is an end. */
  stop(): void {
    this.isOver = true;
    clearTimeout(this.timer);
  }
}
