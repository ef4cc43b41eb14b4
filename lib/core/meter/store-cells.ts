import type { StoreCommand } from '../record/idempotency-events.js';
import type { StoreErrorType } from '../util/errors.js';
import { Histogram } from './histogram.js';
import type { StoreCommandReading } from './meter-reading.js';

/** Of commands, in seconds. */
export const COMMAND_BOUNDS = [
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5,
];

const RECENT_SECONDS = 10;

/** What is counted for the store. */
export class StoreCells {
  /** A map, because an object would be read by names that vary. */
  private readonly commands: ReadonlyMap<StoreCommand, CommandCells>;
  private readonly recent = new RecentCommands();
  private lastErrorType: StoreErrorType = 'idempotency_store_unavailable';

  constructor() {
    this.commands = new Map(COMMANDS.map((name) => [name, new CommandCells(SHOWS_OUTAGE[name])]));
  }

  /** @param sentAt - monotonic, as `now`. */
  replied(command: StoreCommand, sentAt: number, now: number): void {
    const cells = this.commands.get(command);
    if (cells === undefined) return;
    cells.replied(now - sentAt);
    if (cells.showsOutage) this.recent.add(1, now);
  }

  /** @param sentAt - monotonic, as `now`. */
  failed(command: StoreCommand, sentAt: number, now: number, errorType: StoreErrorType): void {
    const cells = this.commands.get(command);
    if (cells === undefined) return;
    cells.failed(now - sentAt, errorType);
    if (!cells.showsOutage) return;
    this.recent.add(-1, now);
    this.lastErrorType = errorType;
  }

  /** The type of the last failure, while more than half of the commands of the last ten seconds failed. */
  outage(now: number): StoreErrorType | undefined {
    return this.recent.balance(now) < 0 ? this.lastErrorType : undefined;
  }

  read(): StoreCommandReading[] {
    return [...this.commands].flatMap(([command, cells]) =>
      cells.read().map((reading) => ({ command, ...reading })),
    );
  }
}

class CommandCells {
  private readonly replies = new Histogram(COMMAND_BOUNDS);
  private readonly failures = new Map<StoreErrorType, Histogram>();

  constructor(readonly showsOutage: boolean) {}

  replied(ms: number): void {
    this.replies.add(ms);
  }

  failed(ms: number, errorType: StoreErrorType): void {
    let histogram = this.failures.get(errorType);
    if (histogram === undefined) {
      histogram = new Histogram(COMMAND_BOUNDS);
      this.failures.set(errorType, histogram);
    }
    histogram.add(ms);
  }

  read(): Omit<StoreCommandReading, 'command'>[] {
    const replies = this.replies.read();
    const failures = Array.from(this.failures, ([errorType, histogram]) => ({
      errorType,
      duration: histogram.read(),
    }));
    return replies.count === 0 ? failures : [{ duration: replies }, ...failures];
  }
}

/** Commands with a reply, less those without: by second, in a ring. */
class RecentCommands {
  private readonly seconds = new Array<number>(RECENT_SECONDS).fill(-Infinity);
  private readonly balances = new Array<number>(RECENT_SECONDS).fill(0);

  add(change: 1 | -1, now: number): void {
    const second = Math.floor(now / 1_000);
    const place = second % RECENT_SECONDS;
    const earlier = this.seconds[place] === second ? (this.balances[place] ?? 0) : 0;
    this.seconds[place] = second;
    this.balances[place] = earlier + change;
  }

  balance(now: number): number {
    const oldest = Math.floor(now / 1_000) - RECENT_SECONDS;
    return this.balances.reduce(
      (sum, each, place) => ((this.seconds[place] ?? 0) > oldest ? sum + each : sum),
      0,
    );
  }
}

/**
 * Whether requests depend on its reply, as for the breaker: watching is best effort, and transactions have connections of
 * the application.
 */
const SHOWS_OUTAGE: Readonly<Record<StoreCommand, boolean>> = {
  begin: true,
  extend: true,
  complete: true,
  release: true,
  watch: false,
  abandoned: false,
  transaction_lock: false,
  transaction_complete: false,
  transaction_ended: false,
};

export const COMMANDS = Object.keys(SHOWS_OUTAGE) as readonly StoreCommand[];
