import type { OnModuleDestroy, OnModuleInit } from '@nestjs/common';
import {
  severityOf,
  type FrequentEventType,
  type IdempotencyEvent,
  type ReconcileReport,
} from '../core/record/events.js';
import type { IdempotencyEvents } from '../core/record/idempotency-events.js';

/** An event as the console shows it: without errors, whose messages may have data. */
export interface SeenEvent {
  readonly at: Date;
  readonly type: IdempotencyEvent['type'];
  readonly operation: string | undefined;
  readonly recordKey: string | undefined;
  readonly attempt: number | undefined;
  /** Why, or how it ended. */
  readonly detail: string | undefined;
}

/** An operator's act, as the console shows it. */
export interface SeenAct {
  readonly at: Date;
  readonly event: Extract<IdempotencyEvent, { type: 'operator_action' }>;
}

/** A round of the reconciler. */
export interface SeenRound {
  readonly at: Date;
  readonly report: ReconcileReport;
}

const MOST_OF_RECORDS = 2_000;
const MOST = 200;

/** The latest events of this process: the store has none. */
export class RecentEvents implements OnModuleInit, OnModuleDestroy {
  private readonly ofRecords: SeenEvent[] = [];
  private readonly seenIncidents: SeenEvent[] = [];
  private readonly seenActs: SeenAct[] = [];
  private lastRound: SeenRound | undefined;
  private end: (() => void) | undefined;

  constructor(private readonly events: IdempotencyEvents) {}

  onModuleInit(): void {
    // It says what the attempt's other events have said: it need not be made.
    const wants = (type: FrequentEventType) => type !== 'ended';
    this.end ??= this.events.subscribe(
      (event) => {
        this.keep(event);
      },
      { wants },
    );
  }

  onModuleDestroy(): void {
    this.end?.();
    this.end = undefined;
  }

  /** Of a record, the oldest first. */
  of(recordKey: string): readonly SeenEvent[] {
    return this.ofRecords.filter((event) => event.recordKey === recordKey);
  }

  /** What shows a problem, the latest first. */
  incidents(): readonly SeenEvent[] {
    return [...this.seenIncidents].reverse();
  }

  /** The latest first. */
  acts(): readonly SeenAct[] {
    return [...this.seenActs].reverse();
  }

  /** The latest that this process has run. */
  round(): SeenRound | undefined {
    return this.lastRound;
  }

  private keep(event: IdempotencyEvent): void {
    const at = new Date();
    if (event.type === 'operator_action') add(this.seenActs, { at, event }, MOST);
    if (event.type === 'reconciled' && event.report.coverage !== 'already_running') {
      this.lastRound = { at, report: event.report };
    }
    const seen: SeenEvent = {
      at,
      type: event.type,
      operation: event.operation,
      recordKey: event.recordKey,
      attempt: 'attempt' in event ? event.attempt : undefined,
      detail: detailOf(event),
    };
    // Another subscriber may have wanted it.
    if (event.recordKey !== undefined && event.type !== 'ended') {
      add(this.ofRecords, seen, MOST_OF_RECORDS);
    }
    if (severityOf(event) !== 'info' && event.type !== 'operator_action')
      add(this.seenIncidents, seen, MOST);
  }
}

function add<Item>(items: Item[], item: Item, most: number): void {
  items.push(item);
  if (items.length > most) items.shift();
}

function detailOf(event: IdempotencyEvent): string | undefined {
  switch (event.type) {
    case 'operator_action':
      return `${event.action}: ${event.result}`;
    case 'waited':
      return event.end;
    default:
      return 'reason' in event ? event.reason : 'errorType' in event ? event.errorType : undefined;
  }
}
