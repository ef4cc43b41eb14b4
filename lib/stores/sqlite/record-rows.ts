import type {
  Fingerprint,
  Outcome,
  OwnerToken,
  RecordKey,
  StoredRecord,
} from '../../core/record/record.js';
import { withNote } from '../../core/store/record-transitions.js';
import type { SqliteDatabase, SqliteRow, SqliteStatement } from './node-sqlite.js';

const COLUMNS = [
  ...['record_key', 'state', 'token', 'fence', 'fingerprint', 'attempt', 'takeovers', 'expires_at'],
  ...['lease_until', 'lease_ms', 'deadline', 'origin', 'note', 'outcome_header', 'outcome_body'],
];

/** None of these has white space. As one text, a third of what as many columns cost the process. */
const LINE = `concat_ws(' ', state, token, fence, fingerprint, attempt, takeovers, expires_at,
  coalesce(lease_until, ''), coalesce(lease_ms, ''), coalesce(deadline, ''),
  coalesce(origin, ''), coalesce(note, '')) AS line`;

const READ = `SELECT ${LINE}, outcome_header, outcome_body FROM idempotency_records WHERE record_key = ?`;

const HIGHEST_DELETED = 'SELECT highest_deleted FROM idempotency_fences';

const WRITE = `INSERT INTO idempotency_records (${COLUMNS.join(', ')})
  VALUES (${COLUMNS.map(() => '?').join(', ')})
  ON CONFLICT (record_key) DO UPDATE SET
  ${COLUMNS.slice(1)
    .map((name) => `${name} = excluded.${name}`)
    .join(', ')}`;

/** The keys are base64url: no key that begins with the text is above it and the last character of Unicode. */
const LIST = `SELECT record_key, ${LINE} FROM idempotency_records
  WHERE record_key > ? AND record_key >= ? AND record_key < ? || char(1114111)
  ORDER BY record_key LIMIT ?`;

const IN_PROGRESS = `SELECT record_key, ${LINE} FROM idempotency_records
  WHERE state = 'in_progress' AND origin IS NOT NULL AND record_key > ? ORDER BY record_key LIMIT ?`;

const DELETE_EXPIRED = `DELETE FROM idempotency_records WHERE record_key IN (
  SELECT record_key FROM idempotency_records WHERE expires_at <= ? ORDER BY expires_at LIMIT ?
  ) RETURNING fence`;

const RAISE = 'UPDATE idempotency_fences SET highest_deleted = max(highest_deleted, ?)';

const FORGET = 'DELETE FROM idempotency_records WHERE record_key = ?';

export interface KeyedRecord {
  readonly recordKey: RecordKey;
  readonly record: StoredRecord;
}

/** The statements of one connection. Each is a part of a step, in whose transaction it runs. */
export class RecordRows {
  private readonly readOne: SqliteStatement;
  private readonly readHighest: SqliteStatement;
  private readonly writeOne: SqliteStatement;
  private readonly listSome: SqliteStatement;
  private readonly inProgress: SqliteStatement;
  private readonly deleteSome: SqliteStatement;
  private readonly raise: SqliteStatement;
  private readonly forgetOne: SqliteStatement;

  constructor(database: SqliteDatabase) {
    this.readOne = database.prepare(READ);
    this.readHighest = database.prepare(HIGHEST_DELETED);
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
    const { state, token, fence, fingerprint, attempt, takeovers, expiresAt, note } = record;
    const running = record.state === 'in_progress' ? record : undefined;
    const outcome = 'outcome' in record ? record.outcome : undefined;
    this.writeOne.run(
      ...[recordKey, state, token, fence, fingerprint, attempt, takeovers, expiresAt],
      ...[running?.leaseUntil ?? null, running?.leaseMs ?? null, running?.deadline ?? null],
      ...[running?.origin ?? null, note ?? null, outcome?.header ?? null, outcome?.body ?? null],
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
