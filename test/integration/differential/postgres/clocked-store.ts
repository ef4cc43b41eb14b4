import type { Pool } from 'pg';
import { PostgresIdempotencyStore } from 'nestjs-idempotency/postgres';
import type {
  Fingerprint,
  OwnerToken,
  RecordKey,
  StoredRecord,
} from '../../../../lib/core/record.js';
import { loadStatements } from '../../../../lib/stores/postgres/sql-statements.js';
import { TableName } from '../../../../lib/stores/postgres/table-name.js';
import { withSqlClock } from '../../../support/injected-sql-clock.js';
import { openPostgresPool } from '../../../support/postgres-pool.js';
import { encodeInspection, encodeRecord, encodeReply, type Fields } from '../redis-encoding.js';
import type { Step } from '../step.js';

/** A change to the text of one statement, to see whether the comparison notices. */
export type Mutation = (file: string, text: string) => string;

const CLOCK = `(to_timestamp(0) + current_setting('test.now_us')::bigint * interval '1 microsecond')`;
const TIMEOUT_MS = 30_000;

/** The shipped statements with a clock that each step sets, on a connection of its own. */
export class ClockedStore {
  private readonly pool: Pool;
  private readonly store: PostgresIdempotencyStore;

  constructor(url: string, mutate: Mutation = (_file, text) => text) {
    // The clock is a setting of the connection.
    this.pool = openPostgresPool(url, { max: 1 });
    const statements = loadStatements(new TableName(), (text, file) =>
      withSqlClock(mutate(file, text), CLOCK),
    );
    this.store = new PostgresIdempotencyStore({ client: this.pool, statements });
  }

  /** @returns what the store answers; undefined where the step is none of its own. */
  async take(step: Step, recordKey: RecordKey): Promise<Fields | undefined> {
    await this.pool.query(`SELECT set_config('test.now_us', $1, false)`, [String(step.nowUs)]);
    const timed = { timeoutMs: TIMEOUT_MS };
    switch (step.operation) {
      case 'begin':
        return encodeReply(await this.store.begin({ ...step.command, ...timed, recordKey }));
      case 'extend':
        return encodeReply(
          await this.store.extend({ ...step.lease, recordKey }, { ...step.command, ...timed }),
        );
      case 'complete':
        return encodeReply(
          await this.store.complete({ ...step.lease, recordKey }, { ...step.command, ...timed }),
        );
      case 'release':
        return encodeReply(
          await this.store.release({ ...step.lease, recordKey }, { ...step.command, ...timed }),
        );
      case 'inspect':
        return encodeInspection(await this.store.inspect(recordKey, timed));
      case 'lose':
        await this.pool.query('DELETE FROM idempotency_records WHERE record_key = $1', [
          Buffer.from(recordKey, 'base64url'),
        ]);
        return undefined;
    }
  }

  /** The row as the step left it, read without the store's own code. */
  async record(recordKey: RecordKey): Promise<string | null> {
    const { rows } = await this.pool.query<Record<string, any>>(
      'SELECT * FROM idempotency_records WHERE record_key = $1',
      [Buffer.from(recordKey, 'base64url')],
    );
    const [row] = rows;
    return row === undefined ? null : encodeRecord(storedRecord(row));
  }

  async close(): Promise<void> {
    await this.store.close();
    await this.pool.end();
  }
}

function storedRecord(row: Record<string, any>): StoredRecord {
  const base = {
    token: row.token as OwnerToken,
    fence: Number(row.fence),
    fingerprint: row.fingerprint as Fingerprint,
    attempt: row.attempt,
    takeovers: row.takeovers,
    expiresAt: row.expires_at.getTime(),
  };
  switch (row.state) {
    case 'in_progress':
      return {
        ...base,
        state: row.state,
        leaseUntil: row.lease_until.getTime(),
        leaseMs: Number(row.lease_ms),
        deadline: row.deadline.getTime(),
        origin: row.origin ?? undefined,
      };
    case 'released':
      return { ...base, state: row.state };
    default:
      return {
        ...base,
        state: row.state,
        outcome: { header: row.outcome_header.toString(), body: row.outcome_body },
      };
  }
}
