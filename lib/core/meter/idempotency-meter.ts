import type {
  AttemptEnd,
  AttemptSubject,
  BreakerState,
  IdempotencyEvent,
  IdempotencyEventType,
  RejectionReason,
  Transport,
  UnprotectedReason,
} from '../record/events.js';
import type { CountedSubject, StoreCommand } from '../record/idempotency-events.js';
import { UNKNOWN_FENCE } from '../record/record.js';
import { nodeClock, type Clock } from '../util/clock.js';
import { storeErrorTypeOf, type StoreErrorType } from '../util/errors.js';
import { OperationCells } from './cells.js';
import type { DurationRecorder } from './duration-recorder.js';
import type {
  AttemptOutcome,
  IncidentType,
  MeterReading,
  OperationReading,
  ReconcileResult,
  RequestResult,
  RunningAttempt,
  StoreReading,
} from './meter-reading.js';
import { StoreCells } from './store-cells.js';

/** The callers of plain calls name operations as they like. */
const MAX_OPERATIONS = 200;

const OTHER_OPERATIONS = '_OTHER';

/** What need not be counted, because it can be read. */
export interface MeterSource {
  running(): Iterable<
    Omit<RunningAttempt, keyof AttemptSubject> & { readonly subject: AttemptSubject }
  >;
  /** The requests of the duplicates that wait. */
  waiting(): Iterable<{ readonly operation: string }>;
  readonly store: {
    readonly system: string;
    readonly breaker: BreakerState | undefined;
    readonly deletedRecords: number | undefined;
  };
}

/**
 * Counts events and the store's commands, from the start of the process and without a subscriber. Injectable. It is read
 * on demand, by exporters of metrics for example.
 */
export class IdempotencyMeter {
  /** Where each event counts. `ended` has the rest of its attempt's story. */
  private static readonly PLACES = {
    acquired: nowhere,
    takeover: (meter, { operation }) => void (meter.of(operation).takeovers += 1),
    recovered: nowhere,
    recovery_failed: incident,
    replayed: (meter, event) => {
      meter.replayed(event);
    },
    waited: (meter, { operation, end, waitedMs }) => {
      meter.of(operation).wait(end, waitedMs);
      meter.recorder?.wait(meter.nameOf(operation), end, waitedMs);
    },
    rejected: (meter, event) => {
      meter.rejected(event, event.reason);
    },
    invalid_request: (meter, event) => {
      meter.request(event, event.reason);
    },
    completed: nowhere,
    released: nowhere,
    ended: (meter, event) => {
      meter.ended(event, event.how, event.durationMs, event.fencingToken !== UNKNOWN_FENCE);
    },
    release_failed: incident,
    slow_attempt: incident,
    lease_lost: (meter, event) => {
      incident(meter, event);
      meter.of(event.operation).leaseLosses[event.reason] += 1;
    },
    superseded: incident,
    outcome_diverged: incident,
    response_diverged: incident,
    record_lost: incident,
    save_delayed: incident,
    save_failed: incident,
    rolled_back: incident,
    conflicted: incident,
    commit_hook_failed: incident,
    unprotected: (meter, event) => {
      if (event.reason === 'store_unavailable') incident(meter, event);
      meter.request(event, UNPROTECTED[event.reason]);
    },
    option_failed: incident,
    key_misnamed: incident,
    store_unavailable: (meter, { error }) => {
      meter.lastFailure = { at: meter.clock.wallTime(), errorType: storeErrorTypeOf(error) };
    },
    reconciled: (meter, { report }) => {
      for (const result of RECONCILE_RESULTS) meter.reconciled[result] += report[result];
    },
    consumer_stopped: nowhere,
    reply_mismatched: nowhere,
    // The store has the state itself.
    breaker_opened: nowhere,
    breaker_half_open: nowhere,
    breaker_closed: nowhere,
  } satisfies {
    readonly [Type in IdempotencyEventType]: (
      meter: IdempotencyMeter,
      event: Extract<IdempotencyEvent, { readonly type: Type }>,
    ) => void;
  };

  private readonly operations = new Map<string, OperationCells>();
  private others: OperationCells | undefined;
  private readonly reconciled: Record<ReconcileResult, number> = { ...NO_RECORDS };
  private readonly storeCells = new StoreCells();
  private lastFailure: StoreReading['lastFailure'];
  private source: MeterSource | undefined;
  private recorder: DurationRecorder | undefined;

  /** @internal @param warn - called once, when operations begin to count together. */
  constructor(
    private readonly warn: (message: string) => void = () => undefined,
    private readonly clock: Clock = nodeClock,
  ) {}

  /**
   * Makes an operation known before its first call, so that its counters start at 0. The library does so for the
   * handlers and methods of the application.
   */
  declare(operation: string, transport: Transport = 'call'): void {
    this.of(operation).declare(transport);
  }

  /** Returns the numbers of now. */
  read(): MeterReading {
    return {
      operations: this.readOperations(),
      store: this.readStore(),
      reconciled: { ...this.reconciled },
    };
  }

  /** Lists the attempts that have not ended. */
  running(): readonly RunningAttempt[] {
    return Array.from(this.source?.running() ?? [], ({ subject, elapsedMs, leaseLeftMs }) => ({
      ...subject,
      elapsedMs,
      leaseLeftMs,
    }));
  }

  /** @internal */
  readFrom(source: MeterSource): void {
    this.source = source;
  }

  /** @internal `undefined` ends it. */
  recordTo(recorder: DurationRecorder | undefined): void {
    this.recorder = recorder;
  }

  /** @internal See {@link StoreCells.outage}. */
  outage(): StoreErrorType | undefined {
    return this.storeCells.outage(this.clock.now());
  }

  /** @internal */
  count(event: IdempotencyEvent): void {
    const place: (meter: IdempotencyMeter, event: never) => void =
      IdempotencyMeter.PLACES[event.type];
    place(this, event as never);
  }

  /** @internal */
  replayed(subject: CountedSubject): void {
    this.request(subject, 'replayed');
  }

  /** @internal */
  rejected(subject: CountedSubject, reason: RejectionReason): void {
    this.request(subject, reason);
  }

  /** @internal */
  ended(subject: CountedSubject, how: AttemptEnd, durationMs: number, isProtected: boolean): void {
    const outcome = OUTCOMES[how];
    if (outcome === undefined || subject.transport === undefined) return;
    const cells = this.of(subject.operation);
    const result = how === 'recovered' ? how : 'executed';
    // An unprotected request is counted when its operation starts.
    if (isProtected) cells.request(subject.transport, result);
    cells.attempt(outcome, durationMs);
    this.recorder?.attempt(this.nameOf(subject.operation), outcome, durationMs);
  }

  /** @internal */
  commandReplied(command: StoreCommand, sentAt: number, now = this.clock.now()): void {
    this.storeCells.replied(command, sentAt, now);
    this.recorder?.command(command, undefined, now - sentAt);
  }

  /** @internal */
  commandFailed(command: StoreCommand, sentAt: number, error: unknown): void {
    const now = this.clock.now();
    const errorType = storeErrorTypeOf(error);
    this.storeCells.failed(command, sentAt, now, errorType);
    this.recorder?.command(command, errorType, now - sentAt);
  }

  private request({ operation, transport }: CountedSubject, result: RequestResult): void {
    if (transport !== undefined) this.of(operation).request(transport, result);
  }

  private of(operation: string): OperationCells {
    const known = this.operations.get(operation);
    if (known !== undefined) return known;
    if (this.operations.size >= MAX_OPERATIONS) return this.others ?? this.startOthers();
    const cells = new OperationCells();
    this.operations.set(operation, cells);
    return cells;
  }

  /** Without the name: it may contain what makes it unique, such as an id. */
  private startOthers(): OperationCells {
    this.warn(
      `The meter counts ${MAX_OPERATIONS} operations by name, and all others together as "${OTHER_OPERATIONS}". Use one name per kind of operation, without ids, for example in IdempotencyService.run({ operation }). [idempotency_too_many_operations]`,
    );
    return (this.others = new OperationCells());
  }

  /** Under which its operation counts. */
  private nameOf(operation: string): string {
    return this.operations.has(operation) ? operation : OTHER_OPERATIONS;
  }

  private readOperations(): Map<string, OperationReading> {
    const running = this.numbersOf(this.running());
    const waiting = this.numbersOf(this.source?.waiting() ?? []);
    const readings = new Map<string, OperationReading>();
    const read = (name: string, cells: OperationCells) => {
      readings.set(name, cells.read(running.get(cells) ?? 0, waiting.get(cells) ?? 0));
    };
    for (const [name, cells] of this.operations) read(name, cells);
    if (this.others !== undefined) read(OTHER_OPERATIONS, this.others);
    return readings;
  }

  private readStore(): StoreReading {
    const { lastFailure } = this;
    const { system, breaker, deletedRecords } = this.source?.store ?? NO_STORE;
    return {
      system,
      commands: this.storeCells.read(),
      ...(breaker !== undefined && { breaker }),
      ...(deletedRecords !== undefined && { deletedRecords }),
      ...(lastFailure !== undefined && { lastFailure }),
    };
  }

  private numbersOf(
    subjects: Iterable<{ readonly operation: string }>,
  ): Map<OperationCells, number> {
    const numbers = new Map<OperationCells, number>();
    for (const { operation } of subjects) {
      const cells = this.of(operation);
      numbers.set(cells, (numbers.get(cells) ?? 0) + 1);
    }
    return numbers;
  }

  /** @internal */
  incident({ operation, type }: { readonly operation: string; readonly type: IncidentType }): void {
    this.of(operation).incidents[type] += 1;
  }
}

/** Before the start. */
const NO_STORE: MeterSource['store'] = {
  system: 'custom',
  breaker: undefined,
  deletedRecords: undefined,
};

const NO_RECORDS: Readonly<Record<ReconcileResult, number>> = {
  completed: 0,
  released: 0,
  overtaken: 0,
  failed: 0,
  unknown: 0,
};

export const RECONCILE_RESULTS = Object.keys(NO_RECORDS) as readonly ReconcileResult[];

/** What the duration of an attempt counts as; not that of an operation that did not start. */
const OUTCOMES: Readonly<Record<AttemptEnd, AttemptOutcome | undefined>> = {
  completed: 'kept',
  failed: 'kept',
  recovered: 'kept',
  released: 'released',
  superseded: 'lost',
  diverged: 'lost',
  rolled_back: 'error',
  conflicted: 'error',
  unsaved: 'error',
  given_up: 'error',
  not_started: undefined,
};

const UNPROTECTED: Readonly<Record<UnprotectedReason, RequestResult>> = {
  store_unavailable: 'unprotected',
  no_key: 'unprotected_no_key',
  no_caller: 'unprotected_no_caller',
  disabled: 'unprotected_disabled',
};

function nowhere(): void {
  // It has no number of its own.
}

function incident(
  meter: IdempotencyMeter,
  event: { readonly operation: string; readonly type: IncidentType },
): void {
  meter.incident(event);
}
