import type { IdempotencyEvent, IdempotencyEventType } from '../../core/record/events.js';
import type { IdempotencyEvents } from '../../core/record/idempotency-events.js';
import { monotonicNow } from '../../core/util/time.js';
import { storeErrorCode, UNAVAILABLE, type ProbeResult } from './shared-probe.js';

const WINDOW_SECONDS = 10;

/** Events that follow a reply of the store. */
const REPLIES: ReadonlySet<IdempotencyEventType> = new Set<IdempotencyEventType>([
  'acquired',
  'takeover',
  'replayed',
  'completed',
  'released',
]);

/** Counts what operations experience of the store, without a command of its own. */
export class RecentCommands {
  /** By second: commands with a reply, less those without. */
  private readonly balances = new Map<number, number>();
  private failure = UNAVAILABLE;

  constructor(events: Pick<IdempotencyEvents, 'subscribe'>) {
    events.subscribe((event) => {
      this.count(event);
    });
  }

  /** Fails while more than half of the commands of the last ten seconds got no reply. */
  result(): ProbeResult {
    const oldest = currentSecond() - WINDOW_SECONDS;
    let balance = 0;
    for (const [second, each] of this.balances) if (second > oldest) balance += each;
    return balance < 0 ? this.failure : {};
  }

  private count(event: IdempotencyEvent): void {
    if (REPLIES.has(event.type)) {
      this.add(1);
    } else if (event.type === 'store_unavailable' || event.type === 'save_delayed') {
      this.failure = 'error' in event ? { errorType: storeErrorCode(event.error) } : UNAVAILABLE;
      this.add(-1);
    }
  }

  private add(change: 1 | -1): void {
    const now = currentSecond();
    for (const second of this.balances.keys()) {
      if (second <= now - WINDOW_SECONDS) this.balances.delete(second);
    }
    this.balances.set(now, (this.balances.get(now) ?? 0) + change);
  }
}

function currentSecond(): number {
  return Math.floor(monotonicNow() / 1_000);
}
