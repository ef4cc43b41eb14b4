import type { LoggerService } from '@nestjs/common';

/** A warning that comes in floods during an outage: one line in this time, and how many it stands for. */
const PAUSE_MS = 10_000;

export class RepeatedWarning {
  private toldAt = -Infinity;
  private untold = 0;

  constructor(private readonly logger: LoggerService) {}

  warn(message: string): void {
    const now = performance.now();
    if (now - this.toldAt < PAUSE_MS) {
      this.untold += 1;
      return;
    }
    const others =
      this.untold === 0 ? '' : ` (and ${String(this.untold)} more since the last line)`;
    this.toldAt = now;
    this.untold = 0;
    this.logger.warn(`${message}${others}`);
  }
}
