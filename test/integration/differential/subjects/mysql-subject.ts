import { randomBytes } from 'node:crypto';
import { createPool } from 'mysql2/promise';
import { MysqlIdempotencyStore } from 'nestjs-idempotency/mysql';
import { fromMysql2 } from 'nestjs-idempotency/mysql2';
import type { RowDataPacket } from 'mysql2/promise';
import type {
  Fingerprint,
  OwnerToken,
  RecordKey,
  StoredRecord,
} from '../../../support/internals/core.js';
import { loadMysqlStatements, MysqlTable } from '../../../support/internals/mysql.js';
import { withMysqlClock } from '../../../support/clocks/injected-clock.js';
import { NO_RECORD, type Observation, type Subject } from '../compare.js';
import { encodeRecord, type Fields } from '../encoding.js';
import type { Mutation } from '../mutants.js';
import { sendStep } from '../send-step.js';
import type { Step } from '../step.js';
import { onConnections, type ClockedStore } from './on-connections.js';

const CONNECTIONS = 4;
/** A variable of the session. */
const CLOCK = "TIMESTAMPADD(MICROSECOND, @test_now_us, '1970-01-01')";

/** Runs `work` with the statements on a migrated database. Each step sets the clock. */
export function withMysqlSubject<Result>(
  url: string,
  work: (subject: Subject) => Promise<Result>,
  mutate?: Mutation,
): Promise<Result> {
  const stores = Array.from({ length: CONNECTIONS }, () => new StoreOnConnection(url, mutate));
  return onConnections(stores, work);
}

class StoreOnConnection implements ClockedStore {
  // The clock belongs to the connection.
  private readonly pool;
  private readonly store;

  constructor(url: string, mutate: Mutation = (_file, text) => text) {
    this.pool = createPool({ uri: url, connectionLimit: 1 });
    const statements = loadMysqlStatements(new MysqlTable(), (text, file) =>
      withMysqlClock(mutate(file, text), CLOCK),
    );
    this.store = new MysqlIdempotencyStore({ client: fromMysql2(this.pool), statements });
  }

  async takeAll(
    steps: readonly Step[],
    isExpected: (at: number, observation: Observation) => boolean,
  ): Promise<Observation[]> {
    const key = randomBytes(32);
    const observed: Observation[] = [];
    for (const [at, step] of steps.entries()) {
      await this.pool.query('SET @test_now_us = ?', [step.nowUs]);
      const reply = await this.take(step, key).catch((error: unknown) => [String(error)]);
      const observation = { reply, ...(await this.readRecord(key)) };
      observed.push(observation);
      if (!isExpected(at, observation)) break;
    }
    return observed;
  }

  async close(): Promise<void> {
    await this.store.close();
    await this.pool.end();
  }

  private async take(step: Step, key: Buffer): Promise<Fields | undefined> {
    if (step.operation === 'lose') {
      await this.pool.query('DELETE FROM idempotency_records WHERE record_key = ?', [key]);
      return undefined;
    }
    return sendStep(this.store, step, key.toString('base64url') as RecordKey, 10_000);
  }

  /** Without the store's own code. */
  private async readRecord(key: Buffer) {
    const text = 'SELECT * FROM idempotency_records WHERE record_key = ?';
    const [rows] = await this.pool.query<RowDataPacket[]>(text, [key]);
    const [row] = rows;
    if (row === undefined) return NO_RECORD;
    return { record: encodeRecord(storedRecord(row)), expiresAt: row.expires_at as number };
  }
}

function storedRecord(row: Record<string, any>): StoredRecord {
  const base = {
    token: row.token as OwnerToken,
    fence: row.fence as number,
    fingerprint: row.fingerprint as Fingerprint,
    attempt: row.attempt as number,
    takeovers: row.takeovers as number,
    expiresAt: row.expires_at as number,
    ...(row.note === null ? {} : { note: row.note as string }),
  };
  switch (row.state) {
    case 'in_progress':
      return {
        ...base,
        state: row.state,
        leaseUntil: row.lease_until as number,
        leaseMs: row.lease_ms as number,
        deadline: row.deadline as number,
        origin: (row.origin as string | null) ?? undefined,
      };
    case 'released':
      return { ...base, state: row.state };
    default:
      return {
        ...base,
        state: row.state as 'completed' | 'failed',
        outcome: { header: String(row.outcome_header), body: row.outcome_body as Buffer },
      };
  }
}
