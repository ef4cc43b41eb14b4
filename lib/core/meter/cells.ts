import type { LeaseLossReason, Transport, WaitEnd } from '../record/events.js';
import { Histogram } from './histogram.js';
import type {
  AttemptOutcome,
  HistogramReading,
  IncidentType,
  OperationReading,
  RequestResult,
} from './meter-reading.js';

/** Of attempts and waits, in seconds. */
export const DURATION_BOUNDS = [
  0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300,
];

type Cells<Label extends string, Cell> = Record<Label, Cell | undefined>;

/** What is counted for one operation. */
export class OperationCells {
  readonly incidents: Record<IncidentType, number> = { ...NO_INCIDENTS };
  readonly leaseLosses: Record<LeaseLossReason, number> = { ...NO_LOSSES };
  takeovers = 0;
  /** Arrays, because an object with names that vary would double the time of an event. */
  private readonly requests: Cells<Transport, number[]> = {
    http: undefined,
    message: undefined,
    websocket: undefined,
    graphql: undefined,
    call: undefined,
  };
  private readonly attempts: Cells<AttemptOutcome, Histogram> = {
    kept: undefined,
    released: undefined,
    lost: undefined,
    error: undefined,
  };
  private readonly waits: Cells<WaitEnd, Histogram> = {
    outcome: undefined,
    released: undefined,
    timeout: undefined,
    caller_gone: undefined,
    shutdown: undefined,
    key_full: undefined,
    caller_full: undefined,
    process_full: undefined,
  };

  /** Its requests come by this transport. */
  declare(transport: Transport): void {
    this.requestsBy(transport);
  }

  request(transport: Transport, result: RequestResult): void {
    const row = this.requestsBy(transport);
    const place = PLACES[result];
    row[place] = (row[place] ?? 0) + 1;
  }

  attempt(outcome: AttemptOutcome, ms: number): void {
    (this.attempts[outcome] ??= new Histogram(DURATION_BOUNDS)).add(ms);
  }

  wait(end: WaitEnd, ms: number): void {
    (this.waits[end] ??= new Histogram(DURATION_BOUNDS)).add(ms);
  }

  read(running: number, waiting: number): OperationReading {
    return {
      requests: readAll(this.requests, occurred),
      incidents: { ...this.incidents },
      takeovers: this.takeovers,
      leaseLosses: { ...this.leaseLosses },
      attempts: readAll(this.attempts, readHistogram),
      waits: readAll(this.waits, readHistogram),
      running,
      waiting,
    };
  }

  private requestsBy(transport: Transport): number[] {
    return (this.requests[transport] ??= RESULTS.map(() => 0));
  }
}

/** The place of each result in a row. */
const PLACES: Readonly<Record<RequestResult, number>> = {
  executed: 0,
  recovered: 1,
  replayed: 2,
  unprotected: 3,
  mismatch: 4,
  in_progress: 5,
  outcome_unknown: 6,
  store_unavailable: 7,
  shutting_down: 8,
  key_missing: 9,
  key_invalid: 10,
  caller_unknown: 11,
  content_invalid: 12,
  unprotected_no_key: 13,
  unprotected_no_caller: 14,
  unprotected_disabled: 15,
  too_many_attempts: 16,
};

export const RESULTS = Object.keys(PLACES) as readonly RequestResult[];

const NO_INCIDENTS: Readonly<Record<IncidentType, number>> = {
  superseded: 0,
  outcome_diverged: 0,
  response_diverged: 0,
  record_lost: 0,
  save_delayed: 0,
  save_failed: 0,
  release_failed: 0,
  rolled_back: 0,
  conflicted: 0,
  commit_hook_failed: 0,
  recovery_failed: 0,
  slow_attempt: 0,
  lease_lost: 0,
  unprotected: 0,
  option_failed: 0,
  key_misnamed: 0,
};

export const INCIDENTS = Object.keys(NO_INCIDENTS) as readonly IncidentType[];

const NO_LOSSES: Readonly<Record<LeaseLossReason, number>> = {
  lost: 0,
  gone: 0,
  max_execution: 0,
  expired: 0,
  connection_lost: 0,
};

export const LOSS_REASONS = Object.keys(NO_LOSSES) as readonly LeaseLossReason[];

function readHistogram(histogram: Histogram): HistogramReading {
  return histogram.read();
}

/** What is there, read. */
function readAll<Label extends string, Cell, Reading>(
  cells: Cells<Label, Cell>,
  read: (cell: Cell) => Reading,
): Partial<Record<Label, Reading>> {
  const all = Object.entries(cells) as [Label, Cell | undefined][];
  return fromEntries(
    all.flatMap(([label, cell]) => (cell === undefined ? [] : [[label, read(cell)] as const])),
  );
}

/** Results that have occurred; 0 only for the one that a rule waits for. */
function occurred(row: readonly number[]): Partial<Record<RequestResult, number>> {
  const entries = RESULTS.map((result, place) => [result, row[place] ?? 0] as const);
  return fromEntries(entries.filter(([result, count]) => count > 0 || result === 'unprotected'));
}

function fromEntries<Label extends string, Value>(
  entries: readonly (readonly [Label, Value])[],
): Partial<Record<Label, Value>> {
  return Object.fromEntries(entries) as Partial<Record<Label, Value>>;
}
