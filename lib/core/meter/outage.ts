import type { StoreCommand } from '../record/idempotency-events.js';
import type { StoreErrorType } from '../errors/errors.js';

const RECENT_SECONDS = 10;

/** Commands with a reply, less those without: by second, in a ring. */
export class Outage {
  private readonly seconds = new Array<number>(RECENT_SECONDS).fill(-Infinity);
  private readonly balances = new Array<number>(RECENT_SECONDS).fill(0);
  private lastErrorType: StoreErrorType = 'idempotency_store_unavailable';

  /** @param now - monotonic. */
  add(command: StoreCommand, errorType: StoreErrorType | undefined, now: number): void {
    if (!isDecisive(command)) return;
    const second = Math.floor(now / 1_000);
    const place = second % RECENT_SECONDS;
    const earlier = this.seconds[place] === second ? (this.balances[place] ?? 0) : 0;
    this.seconds[place] = second;
    this.balances[place] = earlier + (errorType === undefined ? 1 : -1);
    if (errorType !== undefined) this.lastErrorType = errorType;
  }

  /** The type of the last failure, while more than half of the commands of the last ten seconds failed. */
  errorType(now: number): StoreErrorType | undefined {
    const oldest = Math.floor(now / 1_000) - RECENT_SECONDS;
    const balance = this.balances.reduce(
      (sum, each, place) => ((this.seconds[place] ?? 0) > oldest ? sum + each : sum),
      0,
    );
    return balance < 0 ? this.lastErrorType : undefined;
  }
}

/**
 * Whether requests depend on its reply, as for the breaker: watching is best effort, and transactions have connections of
 * the application.
 */
function isDecisive(command: StoreCommand): boolean {
  switch (command) {
    case 'begin':
    case 'inspect':
    case 'complete':
    case 'extend':
    case 'release':
      return true;
    default:
      return false;
  }
}
