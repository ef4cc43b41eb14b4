import { randomBytes } from 'node:crypto';
import type { Pool } from 'pg';
import type {
  Fingerprint,
  IdempotencyStore,
  OwnerToken,
  RecordKey,
} from 'nestjs-idempotency/store';

/** Something that is done over and over, once for each key. */
export type Task = (key: Buffer) => Promise<void>;

const TOKEN = randomBytes(16).toString('base64url') as OwnerToken;
const FINGERPRINT = randomBytes(16).toString('base64url') as Fingerprint;
const HEADER = '{"status":201,"headers":{"content-type":"application/json"}}';
const BODY = Buffer.alloc(200, 'x');
const RETENTION_MS = 86_400_000;
const MAX_EXECUTION_MS = 300_000;
const TIMEOUT_MS = 60_000;

/** begin and complete, as the first request of a key. */
export function storePair(store: IdempotencyStore, retentionMs = RETENTION_MS): Task {
  return async (key) => {
    const recordKey = key.toString('base64url') as RecordKey;
    const begun = await begin(store, recordKey);
    if (begun.kind !== 'acquired') throw new Error(`begin answered ${begun.kind}`);
    const { kind } = await store.complete(
      { recordKey, token: TOKEN, fence: begun.fence },
      {
        state: 'completed',
        outcome: { header: HEADER, body: BODY },
        retentionMs,
        fingerprint: FINGERPRINT,
        whenGone: 'restore',
        timeoutMs: TIMEOUT_MS,
      },
    );
    if (kind !== 'ok') throw new Error(`complete answered ${kind}`);
  };
}

/** begin, of a key that is new. */
export function storeBegin(store: IdempotencyStore): Task {
  return async (key) => {
    const { kind } = await begin(store, key.toString('base64url') as RecordKey);
    if (kind !== 'acquired') throw new Error(`begin answered ${kind}`);
  };
}

/** begin, like every retry. */
export function storeReplay(store: IdempotencyStore): Task {
  return async (key) => {
    const { kind } = await begin(store, key.toString('base64url') as RecordKey);
    if (kind !== 'completed') throw new Error(`begin answered ${kind}`);
  };
}

function begin(store: IdempotencyStore, recordKey: RecordKey) {
  return store.begin({
    recordKey,
    token: TOKEN,
    fingerprint: FINGERPRINT,
    leaseMs: 10_000,
    maxExecutionMs: MAX_EXECUTION_MS,
    recordRetentionMs: RETENTION_MS + MAX_EXECUTION_MS,
    notAfter: 0,
    onExpiredLease: 'takeover',
    timeoutMs: TIMEOUT_MS,
  });
}

/** What one would write by hand, into a table of the same columns and indexes, with prepared statements. */
export function rawPair(pool: Pool, table: string): Task {
  const insert = `INSERT INTO ${table} (
    record_key, state, token, fence, fingerprint, attempt, takeovers, lease_until, lease_ms, deadline, expires_at
  ) VALUES ($1, 'in_progress', $2, $3, $4, 1, 0, $5, 10000, $6, $7)`;
  const update = `UPDATE ${table}
    SET state = 'completed', outcome_header = $2, outcome_body = $3, expires_at = $4
    WHERE record_key = $1`;
  return async (key) => {
    const now = Date.now();
    const [lease, deadline, end] = [10_000, MAX_EXECUTION_MS, RETENTION_MS].map(
      (ms) => new Date(now + ms),
    );
    const inserted = [key, TOKEN, now * 1000, FINGERPRINT, lease, deadline, end];
    await pool.query({ name: 'raw_insert', text: insert, values: inserted });
    const updated = [key, Buffer.from(HEADER), BODY, new Date(now + RETENTION_MS)];
    await pool.query({ name: 'raw_update', text: update, values: updated });
  };
}

/** The usual way to detect a retry: insert, conflict, select. */
export function insertThenSelect(pool: Pool, table: string): Task {
  const insert = `INSERT INTO ${table} (
    record_key, state, token, fence, fingerprint, attempt, takeovers, lease_until, lease_ms, deadline, expires_at
  ) VALUES ($1, 'in_progress', $2, $3, $4, 1, 0, $5, 10000, $6, $7) ON CONFLICT (record_key) DO NOTHING`;
  const select = `SELECT state, token, fence, fingerprint, attempt, takeovers, lease_until, lease_ms,
    deadline, expires_at, outcome_header, outcome_body FROM ${table} WHERE record_key = $1`;
  return async (key) => {
    const now = Date.now();
    const [lease, deadline, end] = [10_000, MAX_EXECUTION_MS, RETENTION_MS].map(
      (ms) => new Date(now + ms),
    );
    const values = [key, TOKEN, now * 1000, FINGERPRINT, lease, deadline, end];
    const inserted = await pool.query({ name: 'raw_claim', text: insert, values });
    if (inserted.rowCount !== 0) throw new Error('the key was new');
    const { rows } = await pool.query({ name: 'raw_select', text: select, values: [key] });
    if (rows.length !== 1) throw new Error('the row is not there');
  };
}
