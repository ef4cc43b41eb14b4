import { randomBytes } from 'node:crypto';
import { PostgresIdempotencyStore } from 'nestjs-idempotency/postgres';
import type {
  Fingerprint,
  OwnerToken,
  RecordKey,
  StoredRecord,
} from '../../../support/internals/core.js';
import { loadStatements, TableName } from '../../../support/internals/postgres.js';
import { withSqlClock } from '../../../support/clocks/injected-clock.js';
import { openPostgresPool } from '../../../support/postgres/postgres-pool.js';
import { NO_RECORD, type Observation, type Subject } from '../compare.js';
import { encodeRecord, type Fields } from '../encoding.js';
import type { Mutation } from '../mutants.js';
import { sendStep } from '../send-step.js';
import type { Step } from '../step.js';
import { onConnections, type ClockedStore } from './on-connections.js';

const CONNECTIONS = 4;
const CLOCK = `(to_timestamp(0) + current_setting('test.now_us')::bigint * interval '1 microsecond')`;
/** Reads the row without the store's own code, and sets the clock of the next step in the same round trip. */
const READ = `SELECT set_config('test.now_us', $2, false), record.*
  FROM (SELECT 1) AS one LEFT JOIN idempotency_records AS record ON record_key = $1`;

/** Runs `work` with the statements on a migrated database. Each step sets the clock. */
export function withPostgresSubject<Result>(
  url: string,
  work: (subject: Subject) => Promise<Result>,
  mutate?: Mutation,
): Promise<Result> {
  const stores = Array.from({ length: CONNECTIONS }, () => new StoreOnConnection(url, mutate));
  return onConnections(stores, work);
}

class StoreOnConnection implements ClockedStore {
  // The clock is a setting of the connection.
  private readonly pool;
  private readonly store;

  constructor(url: string, mutate: Mutation = (_file, text) => text) {
    this.pool = openPostgresPool(url, { max: 1 });
    const statements = loadStatements(new TableName(), (text, file) =>
      withSqlClock(mutate(file, text), CLOCK),
    );
    this.store = new PostgresIdempotencyStore({ client: this.pool, statements });
  }

  async takeAll(
    steps: readonly Step[],
    isExpected: (at: number, observation: Observation) => boolean,
  ): Promise<Observation[]> {
    const key = randomBytes(32);
    const observed: Observation[] = [];
    await this.readRecord(key, steps[0]);
    for (const [at, step] of steps.entries()) {
      const reply = await this.take(step, key).catch((error: unknown) => [String(error)]);
      const observation = { reply, ...(await this.readRecord(key, steps[at + 1])) };
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
      await this.pool.query('DELETE FROM idempotency_records WHERE record_key = $1', [key]);
      return undefined;
    }
    return sendStep(this.store, step, key.toString('base64url') as RecordKey, 10_000);
  }

  private async readRecord(key: Buffer, next: Step | undefined) {
    const { rows } = await this.pool.query<Record<string, any>>({
      name: 'read',
      text: READ,
      values: [key, String(next?.nowUs ?? 0)],
    });
    const [row] = rows;
    if (row === undefined || row.record_key === null) return NO_RECORD;
    return { record: encodeRecord(storedRecord(row)), expiresAt: row.expires_at.getTime() };
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
    ...(row.note === null ? {} : { note: row.note as string }),
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
