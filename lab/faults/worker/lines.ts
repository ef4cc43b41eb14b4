import type { IdempotencyEvent } from 'nestjs-idempotency';
import type { RecordKey } from 'nestjs-idempotency/store';
import type { Point } from './mishap.js';

/** A line of the ledger: one effect, written by the handler itself. */
export interface Effect {
  readonly key: string;
  readonly attempt: number;
  readonly fence: number;
  readonly isTakeover: boolean;
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly worker: string;
  /** Names this very execution; its answer carries it, too. */
  readonly execution: string;
}

interface LineBase {
  readonly worker: string;
  readonly at: number;
}

/** An event that a subscriber got. */
export interface ReportedEvent extends LineBase {
  readonly type: IdempotencyEvent['type'];
  readonly recordKey?: RecordKey;
  readonly attempt?: number;
  readonly fence?: number;
  /** Why a lease was lost. */
  readonly reason?: string;
}

/** What the laboratory saw at the store, without asking the library. */
export type ObservedStep =
  | (LineBase & {
      readonly type: 'lab:began';
      readonly reply: 'acquired' | 'owned' | 'takeover';
      readonly recordKey: RecordKey;
      readonly fence: number;
      readonly attempt: number;
    })
  | (LineBase & {
      readonly type: 'lab:settled';
      readonly step: 'complete' | 'release';
      readonly reply: string;
      readonly recordKey: RecordKey;
      readonly fence: number;
    })
  /** The process ends itself after this line. */
  | (LineBase & { readonly type: 'lab:crash'; readonly point: Point });

/** A line of the events file. */
export type EventLine = ReportedEvent | ObservedStep;
