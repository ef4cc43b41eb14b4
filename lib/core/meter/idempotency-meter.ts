import type {
  AttemptEnd,
  AttemptSubject,
  BreakerState,
  IdempotencyEvent,
  RejectionReason,
  Transport,
  UnprotectedReason,
  WaitEnd,
} from '../record/events.js';
import type { CountedSubject, StoreCommand } from '../record/idempotency-events.js';
import { UNKNOWN_FENCE } from '../record/record.js';
import { nodeClock, type Clock } from '../util/clock.js';
import { storeErrorTypeOf, type StoreErrorType } from '../errors/errors.js';
import type { BlobDirection, BlobResult, BlobWaitEnd } from '../record/blob-observer.js';
import {
  BLOB_RESULT,
  BLOB_WAIT_END,
  DIRECTION,
  OPERATION,
  OUTCOME,
  RECONCILED,
  WAIT_END,
} from './attributes.js';
import {
  commandAttributes,
  INSTRUMENTS,
  NO_ERROR,
  PROCESS_INSTRUMENTS,
  readOperation,
  startOperation,
  type OperationCells,
  type Sample,
} from './instruments.js';
import type {
  AttemptOutcome,
  IncidentType,
  MeterReading,
  OperationReading,
  RequestResult,
  RunningAttempt,
  StoreCommandReading,
  StoreReading,
} from './meter-reading.js';
import { Outage } from './outage.js';

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
    readonly missedEntries: number | undefined;
  };
}

/**
 * Gets each duration as the meter counts it, in the async context of its request: for an exporter that cannot read
 * histograms. It must not throw.
 */
export type DurationRecorder = (
  metric: string,
  ms: number,
  attributes: Sample['attributes'],
) => void;

/**
 * Counts events and the store's commands, from the start of the process and without a subscriber. Injectable. It is read
 * on demand, by exporters of metrics for example.
 */
export class IdempotencyMeter {
  private readonly operations = new Map<string, OperationCells>();
  private others: OperationCells | undefined;
  private readonly reconciled = PROCESS_INSTRUMENTS.reconciled.start();
  private readonly outcomeBytes = PROCESS_INSTRUMENTS.outcomeBytes.start();
  private readonly blobs = PROCESS_INSTRUMENTS.blobs.start();
  private readonly uploadWaits = PROCESS_INSTRUMENTS.uploadWaits.start();
  private readonly commands = PROCESS_INSTRUMENTS.commands.start();
  private readonly outages = new Outage();
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
    this.of(operation).requests.at(transport);
  }

  /** Returns the numbers of now. */
  read(): MeterReading {
    return {
      operations: this.readOperations(),
      store: this.readStore(),
      reconciled: this.reconciled.read(),
      outcomeBytes: this.outcomeBytes.read(),
      blobs: this.blobs.read(),
      uploadWaits: this.uploadWaits.read(),
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

  /** @internal See {@link Outage.errorType}. */
  outage(): StoreErrorType | undefined {
    return this.outages.errorType(this.clock.now());
  }

  /** @internal `ended` has the rest of its attempt's story. */
  count(event: IdempotencyEvent): void {
    switch (event.type) {
      case 'takeover':
        this.of(event.operation).takeovers.count += 1;
        return;
      case 'replayed':
        this.replayed(event);
        return;
      case 'rejected':
      case 'invalid_request':
        this.request(event, event.reason);
        return;
      case 'unprotected':
        if (event.reason === 'store_unavailable') this.incident(event);
        this.request(event, UNPROTECTED[event.reason]);
        return;
      case 'waited':
        this.waited(event.operation, event.end, event.waitedMs);
        return;
      case 'lease_lost':
        this.incident(event);
        this.of(event.operation).leaseLosses.at(event.reason).count += 1;
        return;
      case 'outcome_unreadable':
        this.incident(event);
        this.of(event.operation).unreadable.at(event.reason).count += 1;
        return;
      case 'ended':
        this.ended(event, event.how, event.durationMs, event.fencingToken !== UNKNOWN_FENCE);
        return;
      case 'store_unavailable':
        this.lastFailure = {
          at: this.clock.wallTime(),
          errorType: storeErrorTypeOf(event.error),
        };
        return;
      case 'reconciled':
        for (const result of RECONCILED.values) {
          this.reconciled.at(result).count += event.report[result];
        }
        return;
      case 'acquired':
      case 'recovered':
      case 'completed':
      case 'released':
      case 'consumer_stopped':
      case 'reply_mismatched':
      case 'keys_stale':
      case 'operator_action':
      case 'journal_incomplete':
      // The store has the state itself.
      case 'breaker_opened':
      case 'breaker_half_open':
      case 'breaker_closed':
        return;
      default:
        this.incident(event);
    }
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
    const { operation, transport } = subject;
    if (outcome === undefined || transport === undefined) return;
    const { requests, attempts } = this.of(operation);
    // An unprotected request is counted when its operation starts.
    if (isProtected) requests.at(transport).at(how === 'recovered' ? how : 'executed').count += 1;
    attempts.at(outcome).add(durationMs);
    this.recorder?.(INSTRUMENTS.attempts.name, durationMs, {
      [OPERATION.name]: this.nameOf(operation),
      [OUTCOME.name]: outcome,
    });
  }

  /** @internal */
  commandReplied(command: StoreCommand, sentAt: number, now = this.clock.now()): void {
    this.command(command, undefined, now, now - sentAt);
  }

  /** @internal */
  commandFailed(command: StoreCommand, sentAt: number, error: unknown): void {
    const now = this.clock.now();
    this.command(command, storeErrorTypeOf(error), now, now - sentAt);
  }

  /** @internal */
  recordMoved(direction: BlobDirection, bytes: number): void {
    this.outcomeBytes.at('record').at(direction).count += bytes;
  }

  /** @internal */
  blobMoved(direction: BlobDirection, result: BlobResult, bytes: number, ms: number): void {
    this.outcomeBytes.at('blob').at(direction).count += bytes;
    this.blobs.at(direction).at(result).add(ms);
    this.recorder?.(PROCESS_INSTRUMENTS.blobs.name, ms, {
      [DIRECTION.name]: direction,
      [BLOB_RESULT.name]: result,
    });
  }

  /** @internal */
  uploadWaited(end: BlobWaitEnd, ms: number): void {
    this.uploadWaits.at(end).add(ms);
    this.recorder?.(PROCESS_INSTRUMENTS.uploadWaits.name, ms, { [BLOB_WAIT_END.name]: end });
  }

  private request({ operation, transport }: CountedSubject, result: RequestResult): void {
    if (transport !== undefined) this.of(operation).requests.at(transport).at(result).count += 1;
  }

  private incident(event: { readonly operation: string; readonly type: IncidentType }): void {
    this.of(event.operation).incidents.at(event.type).count += 1;
  }

  private waited(operation: string, end: WaitEnd, ms: number): void {
    this.of(operation).waits.at(end).add(ms);
    this.recorder?.(INSTRUMENTS.waits.name, ms, {
      [OPERATION.name]: this.nameOf(operation),
      [WAIT_END.name]: end,
    });
  }

  private command(
    command: StoreCommand,
    errorType: StoreErrorType | undefined,
    now: number,
    ms: number,
  ): void {
    this.commands
      .at(command)
      .at(errorType ?? NO_ERROR)
      .add(ms);
    this.outages.add(command, errorType, now);
    this.recorder?.(
      PROCESS_INSTRUMENTS.commands.name,
      ms,
      commandAttributes(command, (this.source?.store ?? NO_STORE).system, errorType),
    );
  }

  private of(operation: string): OperationCells {
    const known = this.operations.get(operation);
    if (known !== undefined) return known;
    if (this.operations.size >= MAX_OPERATIONS) return this.others ?? this.startOthers();
    const cells = startOperation();
    this.operations.set(operation, cells);
    return cells;
  }

  /** Without the name: it may contain what makes it unique, such as an id. */
  private startOthers(): OperationCells {
    this.warn(
      `The meter counts ${MAX_OPERATIONS} operations by name, and all others together as "${OTHER_OPERATIONS}". Use one name per kind of operation, without ids, for example in IdempotencyService.run({ operation }). [idempotency_too_many_operations]`,
    );
    return (this.others = startOperation());
  }

  /** Under which its operation counts. */
  private nameOf(operation: string): string {
    return this.operations.has(operation) ? operation : OTHER_OPERATIONS;
  }

  private readOperations(): Map<string, OperationReading> {
    // These may bring operations of which nothing else has been counted.
    const running = this.running().map(({ operation }) => this.of(operation).running);
    const waiting = Array.from(
      this.source?.waiting() ?? [],
      (each) => this.of(each.operation).waiting,
    );
    const all = [...this.operations];
    if (this.others !== undefined) all.push([OTHER_OPERATIONS, this.others]);
    for (const [, cells] of all) cells.running.count = cells.waiting.count = 0;
    for (const level of [...running, ...waiting]) level.count += 1;
    return new Map(all.map(([name, cells]) => [name, readOperation(cells)]));
  }

  private readStore(): StoreReading {
    const { lastFailure } = this;
    const { system, breaker, deletedRecords, missedEntries } = this.source?.store ?? NO_STORE;
    return {
      system,
      commands: this.readCommands(),
      ...(breaker !== undefined && { breaker }),
      ...(deletedRecords !== undefined && { deletedRecords }),
      ...(missedEntries !== undefined && { missedEntries }),
      ...(lastFailure !== undefined && { lastFailure }),
    };
  }

  private readCommands(): StoreCommandReading[] {
    return this.commands.entries().flatMap(([command, cells]) =>
      cells.entries().map(([errorType, durations]) => ({
        command,
        ...(errorType !== NO_ERROR && { errorType }),
        duration: durations.read(),
      })),
    );
  }
}

/** Before the start. */
const NO_STORE: MeterSource['store'] = {
  system: 'custom',
  breaker: undefined,
  deletedRecords: undefined,
  missedEntries: undefined,
};

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
