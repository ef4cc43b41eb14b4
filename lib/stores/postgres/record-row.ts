import type {
  Fingerprint,
  Outcome,
  OwnerToken,
  RecordState,
  StoredRecord,
} from '../../core/record.js';

/** A record as the statements select it, all null where there is none. */
export interface RecordColumns {
  /**
   * Words: state, owner token, fence, fingerprint, attempt, takeovers, end of the retention, and
   * while in progress end of the lease, its length, hard deadline, origin if any. Instants in seconds. One
   * column instead of eleven, each of which would be described anew in every reply.
   */
  readonly record: string | null;
  /** base64. */
  readonly outcome_header: string | null;
  /** base64. */
  readonly outcome_body: string | null;
}

/** The record of a row, or undefined where the row holds none. */
export function recordOf({ record, ...outcome }: RecordColumns): StoredRecord | undefined {
  if (record === null) return undefined;
  const [state = '', token = '', fence, fingerprint = '', attempt, takeovers, expiresAt, ...rest] =
    record.split(' ');
  const base = {
    token: token as OwnerToken,
    fence: Number(fence),
    fingerprint: fingerprint as Fingerprint,
    attempt: Number(attempt),
    takeovers: Number(takeovers),
    expiresAt: milliseconds(expiresAt),
  };
  switch (state as RecordState) {
    case 'in_progress': {
      const [leaseUntil, leaseMs, deadline, origin] = rest;
      return {
        ...base,
        state: 'in_progress',
        leaseUntil: milliseconds(leaseUntil),
        leaseMs: Number(leaseMs),
        deadline: milliseconds(deadline),
        origin,
      };
    }
    case 'released':
      return { ...base, state: 'released' };
    case 'completed':
      return { ...base, state: 'completed', outcome: outcomeOf(outcome) };
    case 'failed':
      return { ...base, state: 'failed', outcome: outcomeOf(outcome) };
  }
}

/** @param seconds - as PostgreSQL writes them, to the microsecond. */
export function microseconds(seconds: string): number {
  return Math.round(Number(seconds) * 1_000_000);
}

function milliseconds(seconds: string | undefined): number {
  return Math.round(Number(seconds) * 1000);
}

/** The table has both columns in each finished record. */
function outcomeOf({ outcome_header, outcome_body }: Omit<RecordColumns, 'record'>): Outcome {
  return {
    header: Buffer.from(outcome_header ?? '', 'base64').toString(),
    body: Buffer.from(outcome_body ?? '', 'base64'),
  };
}
