import type { Complete } from '../../core/record/commands.js';
import type {
  Fingerprint,
  Lease,
  Outcome,
  OwnerToken,
  RecordKey,
  StoredRecord,
} from '../../core/record/record.js';
import { withNote } from '../../core/store/record-transitions.js';
import type { SqliteDatabase, SqliteRow, SqliteStatement, SqliteValue } from './node-sqlite.js';

const COLUMNS = [
  ...['record_key', 'state', 'token', 'fence', 'fingerprint', 'attempt', 'takeovers', 'expires_at'],
  ...['lease_until', 'lease_ms', 'deadline', 'origin', 'note', 'outcome_header', 'outcome_body'],
];

/** Of the values, whose places SQLite counts from 1. */
const valueOf = (column: string) => `?${String(COLUMNS.indexOf(column) + 1)}`;

/** So many ids belong to each millisecond. */
const IDS = 1_048_576;

/** The next one of the millisecond in which the record expires. */
const NEW_ID = `coalesce((SELECT id + 1 FROM idempotency_records
  WHERE id BETWEEN ${valueOf('expires_at')} * ${String(IDS)} AND ${valueOf('expires_at')} * ${String(IDS)} + ${String(IDS - 2)}
  ORDER BY id DESC LIMIT 1), ${valueOf('expires_at')} * ${String(IDS)})`;

const INSERT_INTO = `INSERT INTO idempotency_records (id, ${COLUMNS.join(', ')})
  SELECT ${NEW_ID}, ${COLUMNS.map(valueOf).join(', ')}`;

/** None of these has white space. As one text, a third of what as many columns cost the process. */
const LINE = `concat_ws(' ', state, token, fence, fingerprint, attempt, takeovers, expires_at,
  coalesce(lease_until, ''), coalesce(lease_ms, ''), coalesce(deadline, ''),
  coalesce(origin, ''), coalesce(note, '')) AS line`;

const READ = `SELECT ${LINE}, outcome_header, outcome_body FROM idempotency_records WHERE record_key = ?`;

const HIGHEST_DELETED = 'SELECT highest_deleted FROM idempotency_fences';

/** Its fence has to be later than that of a record of this key that was deleted. */
const INSERT = `${INSERT_INTO} FROM idempotency_fences WHERE highest_deleted < ${valueOf('fence')}
  ON CONFLICT (record_key) DO NOTHING`;

/** The row keeps its place, if that is not too late by more than is given. */
const COMPLETE = `UPDATE idempotency_records
  SET state = ?1, expires_at = ?2, lease_until = NULL, lease_ms = NULL, deadline = NULL, origin = NULL,
    outcome_header = ?3, outcome_body = ?4
  WHERE record_key = ?5 AND state = 'in_progress' AND token = ?6 AND fence = ?7
    AND lease_until > ?8 AND expires_at > ?8 AND id BETWEEN ?2 * ${String(IDS)} AND (?2 + ?9) * ${String(IDS)}`;

const WRITE = `${INSERT_INTO} WHERE true
  ON CONFLICT (record_key) DO UPDATE SET id = excluded.id,
  ${COLUMNS.slice(1)
    .map((name) => `${name} = excluded.${name}`)
    .join(', ')}`;

/** The keys are base64url: no key that begins with the text is above it and the last character of Unicode. */
const LIST = `SELECT record_key, ${LINE} FROM idempotency_records
  WHERE record_key > ? AND record_key >= ? AND record_key < ? || char(1114111)
  ORDER BY record_key LIMIT ?`;

const IN_PROGRESS = `SELECT record_key, ${LINE} FROM idempotency_records
  WHERE state = 'in_progress' AND origin IS NOT NULL AND record_key > ? ORDER BY record_key LIMIT ?`;

const DELETE_EXPIRED = `DELETE FROM idempotency_records WHERE id IN (
  SELECT id FROM idempotency_records WHERE id < (? + 1) * ${String(IDS)} ORDER BY id LIMIT ?
  ) RETURNING fence`;

const RAISE = 'UPDATE idempotency_fences SET highest_deleted = max(highest_deleted, ?)';

const FORGET = 'DELETE FROM idempotency_records WHERE record_key = ?';

/** How long an expired record may stay: to move its row to the right place would cost each completion a third more. */
const LONGEST_STAY_MS = 600_000;

export interface KeyedRecord {
  readonly recordKey: RecordKey;
  readonly record: StoredRecord;
}

/** The statements of one connection. Each is a part of a step, in whose transaction it runs. */
export class RecordRows {
  private readonly readOne: SqliteStatement;
  private readonly readHighest: SqliteStatement;
  private readonly insertOne: SqliteStatement;
  private readonly completeOne: SqliteStatement;
  private readonly writeOne: SqliteStatement;
  private readonly listSome: SqliteStatement;
  private readonly inProgress: SqliteStatement;
  private readonly deleteSome: SqliteStatement;
  private readonly raise: SqliteStatement;
  private readonly forgetOne: SqliteStatement;

  constructor(database: SqliteDatabase) {
    this.readOne = database.prepare(READ);
    this.readHighest = database.prepare(HIGHEST_DELETED);
    this.insertOne = database.prepare(INSERT);
    this.completeOne = database.prepare(COMPLETE);
    this.writeOne = database.prepare(WRITE);
    this.listSome = database.prepare(LIST);
    this.inProgress = database.prepare(IN_PROGRESS);
    this.deleteSome = database.prepare(DELETE_EXPIRED);
    this.raise = database.prepare(RAISE);
    this.forgetOne = database.prepare(FORGET);
  }

  /**
   * Where there is no record and the clock is behind a fence of records that are deleted, an expired record with that fence
   * stands for them: a fence never comes again for a key, also after the clock stepped back.
   */
  read(recordKey: RecordKey, nowUs: number): StoredRecord | undefined {
    const row = this.readOne.get(recordKey);
    if (row !== undefined) return recordOf(row);
    const highest = Number(this.readHighest.get()?.highest_deleted);
    return highest < nowUs ? undefined : expiredWith(highest);
  }

  write(recordKey: RecordKey, record: StoredRecord): void {
    this.writeOne.run(...valuesOf(recordKey, record));
  }

  /** @returns whether there was no record of the key. */
  insert(recordKey: RecordKey, record: StoredRecord): boolean {
    return this.insertOne.run(...valuesOf(recordKey, record)).changes !== 0;
  }

  /** @returns whether it was the attempt's record in progress, within its lease. */
  complete(lease: Lease, { state, outcome, retentionMs }: Complete, nowUs: number): boolean {
    const now = Math.floor(nowUs / 1_000);
    const { recordKey, token, fence } = lease;
    const { header, body } = outcome;
    const after = [state, now + retentionMs, header, body];
    return (
      this.completeOne.run(...after, recordKey, token, fence, now, LONGEST_STAY_MS).changes !== 0
    );
  }

  /** In the order of their keys, with empty outcomes. */
  list(after: string, keyPrefix: string, limit: number): readonly KeyedRecord[] {
    return this.listSome.all(after, keyPrefix, keyPrefix, limit).map(keyedRecordOf);
  }

  /** Those with an origin, in the order of their keys. */
  listInProgress(after: string, limit: number): readonly KeyedRecord[] {
    return this.inProgress.all(after, limit).map(keyedRecordOf);
  }

  /** @returns how many it deleted: fewer than `limit` if no more have expired. */
  deleteExpired(now: number, limit: number): number {
    const deleted = this.deleteSome.all(now, limit);
    if (deleted.length > 0) this.raise.run(Math.max(...deleted.map(({ fence }) => Number(fence))));
    return deleted.length;
  }

  forget(recordKey: RecordKey): void {
    this.forgetOne.run(recordKey);
  }
}

function valuesOf(recordKey: RecordKey, record: StoredRecord): SqliteValue[] {
  const { state, token, fence, fingerprint, attempt, takeovers, expiresAt, note = null } = record;
  const running = record.state === 'in_progress' ? record : undefined;
  const outcome = 'outcome' in record ? record.outcome : undefined;
  return [
    recordKey,
    state,
    token,
    fence,
    fingerprint,
    attempt,
    takeovers,
    expiresAt,
    running?.leaseUntil ?? null,
    running?.leaseMs ?? null,
    running?.deadline ?? null,
    running?.origin ?? null,
    note,
    outcome?.header ?? null,
    outcome?.body ?? null,
  ];
}

function expiredWith(fence: number): StoredRecord {
  const nobody = { token: '' as OwnerToken, fingerprint: '-' as Fingerprint };
  return { state: 'released', ...nobody, fence, attempt: 0, takeovers: 0, expiresAt: -Infinity };
}

function keyedRecordOf(row: SqliteRow): KeyedRecord {
  return { recordKey: row.record_key as RecordKey, record: recordOf(row) };
}

function recordOf(row: SqliteRow): StoredRecord {
  const fields = String(row.line).split(' ');
  const [state, token, fence, fingerprint, attempt, takeovers, expiresAt] = fields;
  const [leaseUntil, leaseMs, deadline, origin, note] = fields.slice(7);
  const base = {
    token: token as OwnerToken,
    fence: Number(fence),
    fingerprint: fingerprint as Fingerprint,
    attempt: Number(attempt),
    takeovers: Number(takeovers),
    expiresAt: Number(expiresAt),
  };
  const noted = withNote(base, note === '' ? undefined : note);
  switch (state) {
    case 'in_progress':
      return {
        ...noted,
        state,
        leaseUntil: Number(leaseUntil),
        leaseMs: Number(leaseMs),
        deadline: Number(deadline),
        origin: origin === '' ? undefined : origin,
      };
    case 'released':
      return { ...noted, state };
    case 'completed':
    case 'failed':
      return { ...noted, state, outcome: outcomeOf(row) };
    default:
      // A row that another program wrote must not pass for a record.
      throw new Error('A record has no known state.');
  }
}

/** The row of a list has none. */
function outcomeOf(row: SqliteRow): Outcome {
  const { outcome_header: header = '', outcome_body: body = null } = row;
  return { header: header as string, body: body === null ? EMPTY : (body as Uint8Array) };
}

const EMPTY = new Uint8Array();
