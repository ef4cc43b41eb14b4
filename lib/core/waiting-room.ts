import type { Claim } from './claim.js';
import { rejected, type Decision } from './decision.js';
import type { IdempotencyEvents } from './events.js';
import { monotonicNow } from './pause.js';
import type { OwnerToken } from './record.js';
import { WaitingLine, type WaitingHost } from './waiting-line.js';

/** Where duplicates wait for attempts in progress: one line for each request, and so many places in all. */
export class WaitingRoom {
  private readonly lines = new Map<string, WaitingLine>();
  private waiters = 0;

  constructor(
    private readonly host: WaitingHost,
    private readonly events: IdempotencyEvents,
    private readonly maxWaiters: number,
  ) {}

  /** @returns the first one's outcome, an attempt of its own, or a rejection. */
  async wait(claim: Claim, token: OwnerToken): Promise<Decision> {
    const { operation, recordKey, options } = claim;
    const patienceMs = Math.min(options.waitTimeoutMs, claim.waitAtMostMs ?? Infinity);
    const isPointless = patienceMs === 0 || claim.callerGone?.aborted === true;
    if (this.waiters >= this.maxWaiters || isPointless) return rejected('in_progress');
    const startedAt = monotonicNow();
    this.waiters += 1;
    const decision = await this.lineFor(claim).join(claim, token, startedAt + patienceMs);
    this.waiters -= 1;
    const waitedMs = monotonicNow() - startedAt;
    this.events.emit({ type: 'waited', operation, recordKey, waitedMs });
    return decision;
  }

  /** Lets everybody ask again at once. */
  wake(): void {
    for (const line of this.lines.values()) line.wake();
  }

  private lineFor({ recordKey, fingerprint }: Claim): WaitingLine {
    const name = `${recordKey} ${fingerprint}`;
    let line = this.lines.get(name);
    if (line === undefined) {
      line = new WaitingLine(this.host, () => this.lines.delete(name));
      this.lines.set(name, line);
    }
    return line;
  }
}
