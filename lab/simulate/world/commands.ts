import type {
  Abandoned,
  Begin,
  Complete,
  Extend,
  Release,
  Lease,
  RecordKey,
} from '../../../test/support/internals/core.js';

/** What is sent to a server. */
export type Command =
  | {
      readonly name: 'begin';
      readonly recordKey: RecordKey;
      readonly args: Begin;
      readonly sentAt: number;
      readonly knowsClock: boolean;
    }
  | {
      readonly name: 'extend';
      readonly recordKey: RecordKey;
      readonly lease: Lease;
      readonly args: Extend;
    }
  | {
      readonly name: 'complete';
      readonly recordKey: RecordKey;
      readonly lease: Lease;
      readonly args: Complete;
    }
  | {
      readonly name: 'release';
      readonly recordKey: RecordKey;
      readonly lease: Lease;
      readonly args: Release;
    }
  | {
      readonly name: 'inspect';
      readonly recordKey: RecordKey;
      readonly args: { readonly timeoutMs: number };
    }
  | { readonly name: 'abandoned'; readonly recordKey: undefined; readonly args: Abandoned }
  | { readonly name: 'watch'; readonly recordKey: RecordKey; readonly onEnd: () => void };

/** The kind of a reply, for coverage and history. */
export function kindOf(reply: unknown): string {
  const { kind } = (reply ?? {}) as { kind?: unknown };
  return typeof kind === 'string' ? kind : 'a value';
}

/** Every reply that a command can get: a run that does not see one of them did not try it. */
export const REPLIES = {
  begin: [
    'acquired',
    'owned',
    'takeover',
    'in_progress',
    'abandoned',
    'completed',
    'failed',
    'mismatch',
    'stale_begin',
    'late',
  ],
  extend: ['ok', 'revived', 'max_execution', 'lost', 'gone', 'not_in_progress'],
  complete: ['ok', 'ok_late', 'already', 'superseded', 'lost', 'restored', 'gone'],
  // `not_in_progress` is for an attempt whose transaction was committed.
  release: ['ok', 'already', 'lost', 'gone'],
} as const;
