import { randomInt } from 'node:crypto';
import type {
  Fingerprint,
  Lease,
  Outcome,
  OwnerToken,
  RecordState,
  StoredRecord,
} from '../../../core/record/record.js';
import type { Begin, Complete } from '../../../core/record/commands.js';
import { withNote } from '../../../core/store/record-transitions.js';
import { asBuffer } from '../../../core/util/as-buffer.js';
import type { MysqlValue } from '../../../transactions/shared/mysql-connections.js';
import { noteWord, originWord, recordKeyBytes } from '../../shared/record-values.js';
import type { MysqlRow } from '../connection/on-connection.js';
import { textOf } from './statement-runner.js';

/** A row as it was read; `record` is `undefined` if there is none. */
export interface LoadedRow {
  readonly nowUs: number;
  readonly record: StoredRecord | undefined;
  readonly version: number;
}

export function loadedRow(row: MysqlRow): LoadedRow {
  const isThere = row.version !== null && row.version !== undefined;
  return {
    nowUs: Number(row.now_us),
    record: isThere ? recordOf(row) : undefined,
    version: Number(row.version ?? 0),
  };
}

function recordOf(row: MysqlRow): StoredRecord {
  const common = {
    token: textOf(row.token) as OwnerToken,
    fence: Number(row.fence),
    fingerprint: textOf(row.fingerprint) as Fingerprint,
    attempt: Number(row.attempt),
    takeovers: Number(row.takeovers),
    expiresAt: Number(row.expires_at),
  };
  const base = withNote(common, textOf(row.note));
  const state = textOf(row.state) as RecordState;
  switch (state) {
    case 'in_progress':
      return {
        ...base,
        state,
        leaseUntil: Number(row.lease_until),
        leaseMs: Number(row.lease_ms),
        deadline: Number(row.deadline),
        origin: textOf(row.origin),
      };
    case 'released':
      return { ...base, state };
    case 'completed':
    case 'failed':
      return { ...base, state, outcome: outcomeOf(row) };
  }
}

function outcomeOf({ outcome_header: header, outcome_body: body }: MysqlRow): Outcome {
  return { header: textOf(header) ?? '', body: bytesOf(body) };
}

export function bytesOf(value: unknown): Buffer {
  if (value instanceof Uint8Array) return asBuffer(value);
  return Buffer.from(typeof value === 'string' ? value : '', 'latin1');
}

/** Of JavaScript's integers, and not 0, which is the reply of a statement that wrote nothing. */
const HIGHEST_VERSION = 2 ** 48 - 1;

/** Random: no two writes of a key have the same one, not even after a deletion. */
export function newVersion(): number {
  return randomInt(1, HIGHEST_VERSION);
}

/** The values of `insert.sql`, and of `update.sql` before the version that was read. */
export function rowValues(key: Buffer, version: number, record: StoredRecord): MysqlValue[] {
  const { state, token, fence, fingerprint, attempt, takeovers, expiresAt, note } = record;
  const running = record.state === 'in_progress' ? record : undefined;
  const origin = originWord(running?.origin);
  const outcome = 'outcome' in record ? outcomeValues(record.outcome) : [null, null];
  return [
    ...[version, state, token, fence, fingerprint, attempt, takeovers],
    ...[running?.leaseUntil ?? null, running?.leaseMs ?? null, running?.deadline ?? null],
    ...[expiresAt, origin, origin === null ? null : (running?.leaseUntil ?? null)],
    ...[noteWord(note), ...outcome, key],
  ];
}

export function beginValues(command: Begin): MysqlValue[] {
  const { leaseMs, maxExecutionMs, notAfter } = command;
  const leaseLeftMs = Math.min(leaseMs, maxExecutionMs);
  const origin = originWord(command.origin);
  return [
    ...[recordKeyBytes(command.recordKey), newVersion(), command.token, command.fingerprint],
    ...[leaseMs, leaseLeftMs, maxExecutionMs, command.recordRetentionMs],
    ...[origin, origin === null ? null : leaseLeftMs, noteWord(command.note), notAfter, notAfter],
  ];
}

/** The values of `complete.sql` and `complete-in-transaction.sql`. */
export function completionValues(
  { recordKey, token, fence }: Lease,
  version: number,
  command: Pick<Complete, 'state' | 'retentionMs' | 'outcome' | 'note'>,
): MysqlValue[] {
  const { state, retentionMs, outcome, note } = command;
  const own = [recordKeyBytes(recordKey), token, fence, fence];
  return [version, state, retentionMs, ...outcomeValues(outcome), noteWord(note), ...own];
}

function outcomeValues({ header, body }: Outcome): [Buffer, Buffer] {
  return [Buffer.from(header), asBuffer(body)];
}
