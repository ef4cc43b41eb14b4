import {
  bytesOf as outcomeBytes,
  type Fingerprint,
  type Lease,
  type Outcome,
  type OwnerToken,
  type RecordKey,
  type StoredRecord,
} from '../../../core/record/record.js';
import type * as Store from '../../../core/record/commands.js';
import { pageInParts } from '../../../core/store/page-in-parts.js';
import { inspect, isListed } from '../../../core/store/record-transitions.js';
import { keyRange, recordKeyBytes, RECORDS_PER_STATEMENT } from '../../shared/record-values.js';
import type { MysqlDeadline } from '../connection/deadline.js';
import { TooLargeError } from '../connection/error-classification.js';
import type { Send } from '../connection/on-connection.js';
import type { MysqlStatements } from '../sql/sql-statements.js';
import {
  beginValues,
  bytesOf,
  completionValues,
  loadedRow,
  newVersion,
  rowValues,
  type LoadedRow,
} from './record-row.js';
import { readOn, textOf, type MysqlRunner } from './statement-runner.js';

/** What a statement has besides the outcome, with room to spare. */
const PACKET_OVERHEAD_BYTES = 4_096;
/** Every server takes it: the least that any version has by default is a megabyte. */
const SMALL_BYTES = 256 * 1_024;

/** The statements in `sql/mysql/`: their values, and what their rows mean. */
export class MysqlRecordTable {
  /** Of the server, in bytes; read before the first outcome that is not small. */
  private maxPacketBytes: number | undefined;

  constructor(
    private readonly runner: MysqlRunner,
    private readonly statements: MysqlStatements,
  ) {}

  /** @returns the acquisition, if there was no record. */
  async insert(
    command: Store.Begin,
    deadline: MysqlDeadline,
  ): Promise<Store.Acquisition | undefined> {
    const fence = await this.runner.write(deadline, this.statements.begin, beginValues(command));
    if (fence === 0) return undefined;
    return { fence, now: Math.floor(fence / 1000), attempt: 1, takeovers: 0 };
  }

  async read(recordKey: RecordKey, deadline: MysqlDeadline): Promise<LoadedRow> {
    const values = [recordKeyBytes(recordKey)];
    const [row = {}] = await this.runner.read(deadline, this.statements.read, values);
    return loadedRow(row);
  }

  /** @returns whether the record was still as it was read, and is written. */
  async save(
    recordKey: RecordKey,
    read: LoadedRow,
    record: StoredRecord,
    deadline: MysqlDeadline,
  ): Promise<boolean> {
    if ('outcome' in record) await this.admit(record.outcome, deadline);
    const version = newVersion();
    const values = rowValues(recordKeyBytes(recordKey), version, record);
    const { insert, update } = this.statements;
    const written =
      read.record === undefined
        ? await this.runner.write(deadline, insert, values)
        : await this.runner.write(deadline, update, [...values, read.version]);
    return written === version;
  }

  /** @returns whether it stored the outcome in the attempt's record in progress, within its lease. */
  async complete(lease: Lease, command: Store.Complete, deadline: MysqlDeadline): Promise<boolean> {
    await this.admit(command.outcome, deadline);
    const version = newVersion();
    const values = completionValues(lease, version, command);
    return (await this.runner.write(deadline, this.statements.complete, values)) === version;
  }

  /** @returns whether a transaction that runs the attempt is open. Waits for none. */
  isLocked(recordKey: RecordKey, token: OwnerToken, deadline: MysqlDeadline): Promise<boolean> {
    return this.runner.run(deadline, (send) => this.isLockedOn(send, recordKey, token));
  }

  /** For what a transaction that was committed too early has left behind. */
  async unlock({ recordKey, token }: Lease, deadline: MysqlDeadline): Promise<void> {
    const values = [recordKeyBytes(recordKey), token];
    await this.runner.write(deadline, this.statements.unlock, values);
  }

  /** The cursor is the last record of a page. */
  abandoned(
    { overMs, limit, cursor = '0 ' }: Store.Abandoned,
    deadline: MysqlDeadline,
  ): Promise<Store.AbandonedPage> {
    const [from = '', lastKey = ''] = cursor.split(' ');
    const leaseUntil = Number(from);
    const last = Buffer.from(lastKey, 'base64url');
    const values = [overMs, leaseUntil, leaseUntil, leaseUntil, last, limit];
    return this.runner.run(deadline, async (send) => {
      const rows = await readOn(send, this.statements.abandoned, values);
      const found = rows.filter((row) => row.record_key !== null);
      const records: Store.AbandonedPage['records'][number][] = [];
      for (const row of found) {
        const recordKey = keyOf(row.record_key);
        if (await this.isLockedOn(send, recordKey, textOf(row.token) as OwnerToken)) continue;
        const fingerprint = textOf(row.fingerprint) as Fingerprint;
        records.push({ recordKey, fingerprint, origin: textOf(row.origin) ?? '' });
      }
      const end = found.at(-1);
      if (end === undefined || found.length < limit) return { records };
      return { records, cursor: `${Number(end.recoverable_from)} ${keyOf(end.record_key)}` };
    });
  }

  /** @returns keys of records whose lease ends further ahead than its own length. */
  async ahead(limit: number, deadline: MysqlDeadline): Promise<readonly RecordKey[]> {
    const rows = await this.runner.read(deadline, this.statements.ahead, [limit]);
    return rows.filter((row) => row.record_key !== null).map((row) => keyOf(row.record_key));
  }

  /** The cursor is the last key of a page. */
  list(command: Store.List, deadline: MysqlDeadline): Promise<Store.RecordPage> {
    return pageInParts(command, RECORDS_PER_STATEMENT, (part) =>
      this.listPart({ ...command, ...part }, deadline),
    );
  }

  private async listPart(command: Store.List, deadline: MysqlDeadline): Promise<Store.RecordPage> {
    const { keyPrefix = '', limit, maxScanned, cursor = '' } = command;
    const values = [Buffer.from(cursor, 'base64url'), ...keyRange(keyPrefix), maxScanned];
    const rows = await this.runner.read(deadline, this.statements.list, values);
    const found = rows.filter((row) => row.record_key !== null);
    const records: Store.ListedRecord[] = [];
    let scanned = 0;
    let last = '';
    for (const row of found) {
      if (records.length === limit) break;
      const recordKey = keyOf(row.record_key);
      last = recordKey;
      scanned += 1;
      const { record, nowUs } = loadedRow(row);
      const inspected = inspect(record, nowUs);
      if (inspected === undefined || !recordKey.startsWith(keyPrefix)) continue;
      const { outcome: _, ...listed } = inspected;
      if (isListed(listed, command)) records.push({ recordKey, ...listed });
    }
    const isLast = scanned === found.length && found.length < maxScanned;
    return isLast ? { records, scanned } : { records, scanned, cursor: last };
  }

  /** Refuses what would cost the connection and could never be stored. Also before a transaction completes. */
  async admit(outcome: Outcome, deadline: MysqlDeadline): Promise<void> {
    const size = outcomeBytes(outcome);
    if (size < SMALL_BYTES) return;
    await this.runner.run(deadline, async (send) => {
      const limit = (this.maxPacketBytes ??= await maxPacketOn(send));
      if (size + PACKET_OVERHEAD_BYTES > limit) {
        // Another server may take it, after a failover or a restart.
        this.maxPacketBytes = undefined;
        throw new TooLargeError(size, limit);
      }
    });
  }

  private async isLockedOn(send: Send, recordKey: RecordKey, token: OwnerToken): Promise<boolean> {
    // For the next statement only.
    await send('SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED', [], true);
    const values = [recordKeyBytes(recordKey), token];
    const [row] = await readOn(send, this.statements['is-locked'], values);
    return Number(row?.found) > 0;
  }
}

async function maxPacketOn(send: Send): Promise<number> {
  const [row] = await readOn(send, 'SELECT ? AS nonce, @@max_allowed_packet AS bytes', []);
  return Number(row?.bytes);
}

function keyOf(value: unknown): RecordKey {
  return bytesOf(value).toString('base64url') as RecordKey;
}
