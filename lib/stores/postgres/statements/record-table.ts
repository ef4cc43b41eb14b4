import type {
  Fingerprint,
  Lease,
  Outcome,
  RecordKey,
  RecordState,
} from '../../../core/record/record.js';
import { isOfRequest } from '../../../core/record/record-key.js';
import type * as Store from '../../../core/record/commands.js';
import type { RecordSnapshot } from '../../../core/store/compare-and-set.js';
import { pageInParts } from '../../../core/store/page-in-parts.js';
import { inspect, isListed, withNote } from '../../../core/store/record-transitions.js';
import type { Deadline } from '../connection/deadline.js';
import type { SqlStatement, SqlStatements } from '../sql/sql-statements.js';
import {
  completionValues,
  leaseValues,
  microseconds,
  outcomeValues,
  snapshotOf,
} from './record-row.js';
import {
  keyRange,
  noteWord,
  originWord,
  recordKeyBytes,
  RECORDS_PER_STATEMENT,
} from '../../shared/record-values.js';
import type { SqlValue, StatementRunner } from './statement-runner.js';

export interface BegunSnapshot extends RecordSnapshot {
  /** Whether the statement found no record, and inserted one. @defaultValue false */
  readonly isInserted?: boolean;
}

export interface RowAcquisition extends Store.Acquisition {
  readonly how: 'expired' | 'released' | 'abandoned';
  /** Of the attempt before; only after `abandoned`. */
  readonly note?: string;
}

const WORDS_OF_COUNTERS = 4;

/** Words per abandoned record. */
const WORDS_OF_ABANDONED = 4;

/** The statements in `sql/`: their values, and what their rows mean. */
export class RecordTable {
  /** @param journaled - the same statements, for records of requests, with their entries of the journal. */
  constructor(
    private readonly runner: StatementRunner,
    private readonly statements: SqlStatements,
    private readonly journaled = statements,
  ) {}

  /** @returns what the statement found; undefined if it neither found nor inserted a record. */
  async insertOrRead(command: Store.Begin, deadline: Deadline): Promise<BegunSnapshot | undefined> {
    const words = await this.runner.run(
      this.of(command.recordKey).begin,
      beginValues(command),
      deadline,
    );
    if (words.length === 0) return undefined;
    if (words.length > 1) return snapshotOf(words);
    // The fence of a first attempt is the clock.
    return { nowUs: Number(words[0]), record: undefined, isInserted: true };
  }

  async read(recordKey: RecordKey, deadline: Deadline): Promise<RecordSnapshot> {
    const values = [recordKeyBytes(recordKey)];
    return snapshotOf(await this.runner.run(this.statements.read, values, deadline));
  }

  /** The cursor is the last record of a page. */
  async abandoned(
    { overMs, limit, cursor = '0 ' }: Store.Abandoned,
    deadline: Deadline,
  ): Promise<Store.AbandonedPage> {
    const [leaseUntilMs = '', recordKey = ''] = cursor.split(' ');
    const values = [overMs, limit, leaseUntilMs, Buffer.from(recordKey, 'base64url')];
    const words = await this.runner.run(this.statements.abandoned, values, deadline);
    const records: Store.AbandonedPage['records'][number][] = [];
    for (let at = 0; at < words.length; at += WORDS_OF_ABANDONED) {
      const [digest = '', fingerprint = '', origin = ''] = words.slice(at, at + WORDS_OF_ABANDONED);
      records.push({
        recordKey: Buffer.from(digest, 'base64').toString('base64url') as RecordKey,
        fingerprint: fingerprint as Fingerprint,
        origin,
      });
    }
    const [last, lastLeaseUntilMs] = [records.at(-1), words.at(-1)];
    if (last === undefined || lastLeaseUntilMs === undefined || records.length < limit) {
      return { records };
    }
    return { records, cursor: `${lastLeaseUntilMs} ${last.recordKey}` };
  }

  /** The cursor is the last key of a page. */
  list(command: Store.List, deadline: Deadline): Promise<Store.RecordPage> {
    return pageInParts(command, RECORDS_PER_STATEMENT, (part) =>
      this.listPart({ ...command, ...part }, deadline),
    );
  }

  private async listPart(command: Store.List, deadline: Deadline): Promise<Store.RecordPage> {
    const { keyPrefix = '', limit, maxScanned, cursor = '' } = command;
    const values = [Buffer.from(cursor, 'base64url'), ...keyRange(keyPrefix), maxScanned];
    const [clock = '', ...words] = await this.runner.run(this.statements.list, values, deadline);
    const lines = words.length === 0 ? [] : words.join(' ').split('\n');
    const records: Store.ListedRecord[] = [];
    let scanned = 0;
    let last = '';
    for (const line of lines) {
      if (records.length === limit) break;
      const [digest = '', ...row] = line.split(' ');
      const recordKey = Buffer.from(digest, 'base64').toString('base64url') as RecordKey;
      last = recordKey;
      scanned += 1;
      const { record, nowUs } = snapshotOf([clock, ...row]);
      const inspected = inspect(record, nowUs);
      if (inspected === undefined || !recordKey.startsWith(keyPrefix)) continue;
      const { outcome: _, ...listed } = inspected;
      if (isListed(listed, command)) records.push({ recordKey, ...listed });
    }
    const isLast = scanned === lines.length && lines.length < maxScanned;
    return isLast ? { records, scanned } : { records, scanned, cursor: last };
  }

  /** @returns the fence from now on; undefined if it changed nothing. */
  async amend(command: Store.Amend, deadline: Deadline): Promise<number | undefined> {
    const { recordKey, token, expected, change, evenIfRunning, notBefore, note } = command;
    const { outcome, durationMs, state, takeovers } = amended(command);
    const [fence] = await this.runner.run(
      this.of(recordKey).amend,
      [
        recordKeyBytes(recordKey),
        token,
        expected.state,
        expected.fence,
        notBefore === 0 ? -Infinity : notBefore / 1000,
        evenIfRunning,
        state,
        change.kind !== 'keep',
        takeovers,
        durationMs ?? null,
        noteWord(note),
        ...(outcome === undefined ? [null, null] : outcomeValues(outcome)),
      ],
      deadline,
    );
    return fence === undefined ? undefined : Number(fence);
  }

  async acquire(command: Store.Begin, deadline: Deadline): Promise<RowAcquisition | undefined> {
    const mayTakeOver = command.onExpiredLease === 'takeover';
    const values = [...beginValues(command), mayTakeOver];
    const [how, ...rest] = await this.runner.run(
      this.of(command.recordKey).acquire,
      values,
      deadline,
    );
    if (how === undefined) return undefined;
    const acquired = { how: how as RowAcquisition['how'], ...countersOf(rest) };
    return withNote(acquired, rest[WORDS_OF_COUNTERS]);
  }

  async renew(command: Store.Begin, deadline: Deadline): Promise<Store.Acquisition | undefined> {
    const { recordKey, token, fingerprint, leaseMs, recordRetentionMs } = command;
    const values = [recordKeyBytes(recordKey), token, fingerprint, leaseMs, recordRetentionMs];
    const counters = await this.runner.run(this.statements.renew, values, deadline);
    return counters.length === 0 ? undefined : countersOf(counters);
  }

  async clamp(recordKey: RecordKey, fence: number, deadline: Deadline): Promise<void> {
    await this.runner.run(this.statements.clamp, [recordKeyBytes(recordKey), fence], deadline);
  }

  /** @returns whether the row of the record in progress with that fence is not locked. */
  async isFree(recordKey: RecordKey, fence: number, deadline: Deadline): Promise<boolean> {
    return this.does(this.statements.probe, [recordKeyBytes(recordKey), fence], deadline);
  }

  /** @returns whether it extended a lease. */
  extend(
    lease: Lease,
    { leaseMs, recordRetentionMs }: Store.Extend,
    mayBeOver: boolean,
    deadline: Deadline,
  ): Promise<boolean> {
    const values = [...leaseValues(lease), leaseMs, recordRetentionMs, mayBeOver];
    return this.does(this.statements.extend, values, deadline);
  }

  /** @returns whether it stored the outcome in a record in progress. */
  complete(
    lease: Lease,
    command: Store.Complete,
    mayBeOver: boolean,
    deadline: Deadline,
  ): Promise<boolean> {
    const values = [...completionValues(lease, command), mayBeOver];
    return this.does(this.of(lease.recordKey).complete, values, deadline);
  }

  /** @returns whether it stored the outcome over another attempt's tombstone. */
  completeReleased(lease: Lease, command: Store.Complete, deadline: Deadline): Promise<boolean> {
    const statement = this.of(lease.recordKey)['complete-released'];
    return this.does(statement, restoreValues(lease, command), deadline);
  }

  /** @returns whether the record was absent, and is restored. Only for a success. */
  restore(lease: Lease, command: Store.Complete, deadline: Deadline): Promise<boolean> {
    return this.does(this.of(lease.recordKey).restore, restoreValues(lease, command), deadline);
  }

  async confirm(recordKey: RecordKey, deadline: Deadline): Promise<void> {
    await this.runner.run(this.statements.confirm, [recordKeyBytes(recordKey)], deadline);
  }

  /** @returns whether it released a record. */
  release(
    lease: Lease,
    { tombstoneMs, note }: Store.Release,
    deadline: Deadline,
  ): Promise<boolean> {
    const values = [...leaseValues(lease), tombstoneMs, noteWord(note)];
    return this.does(this.of(lease.recordKey).release, values, deadline);
  }

  async notify(channel: string, recordKey: RecordKey, deadline: Deadline): Promise<void> {
    await this.runner.run(this.statements.notify, [channel, recordKey], deadline);
  }

  private of(recordKey: RecordKey): SqlStatements {
    return isOfRequest(recordKey) ? this.journaled : this.statements;
  }

  /** @returns whether the reply contains more than the nonce. */
  private async does(
    statement: SqlStatement,
    values: SqlValue[],
    deadline: Deadline,
  ): Promise<boolean> {
    return (await this.runner.run(statement, values, deadline)).length > 0;
  }
}

function beginValues(command: Store.Begin): SqlValue[] {
  return [
    recordKeyBytes(command.recordKey),
    command.token,
    command.fingerprint,
    command.leaseMs,
    command.maxExecutionMs,
    command.recordRetentionMs,
    lateFrom(command.notAfter),
    originWord(command.origin),
    noteWord(command.note),
  ];
}

interface AmendedRow {
  readonly state: RecordState;
  readonly takeovers: number;
  readonly durationMs: number | undefined;
  readonly outcome: Outcome | undefined;
}

function amended({ change, expected }: Store.Amend): AmendedRow {
  switch (change.kind) {
    case 'release': {
      const takeovers = change.isTakeover ? 1 : 0;
      return { state: 'released', takeovers, durationMs: change.tombstoneMs, outcome: undefined };
    }
    case 'settle': {
      const { state, retentionMs: durationMs, outcome } = change;
      return { state, takeovers: 0, durationMs, outcome };
    }
    case 'keep': {
      const { retentionMs: durationMs, outcome } = change;
      return { state: expected.state, takeovers: 0, durationMs, outcome };
    }
  }
}

/** The end of the last millisecond in which begin may acquire, in seconds. */
function lateFrom(notAfter: number): number {
  return notAfter === 0 ? Infinity : (notAfter + 1) / 1000;
}

function restoreValues(lease: Lease, command: Store.Complete): SqlValue[] {
  const { retentionMs, fingerprint, outcome } = command;
  return [...leaseValues(lease), retentionMs, fingerprint, ...outcomeValues(outcome)];
}

function countersOf([clock = '', fence, attempt, takeovers]: readonly string[]): Store.Acquisition {
  return {
    fence: Number(fence),
    now: Math.floor(microseconds(clock) / 1000),
    attempt: Number(attempt),
    takeovers: Number(takeovers),
  };
}
