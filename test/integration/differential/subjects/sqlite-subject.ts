import { randomBytes } from 'node:crypto';
import type {
  Fingerprint,
  OwnerToken,
  RecordKey,
  StoredRecord,
} from '../../../support/internals/core.js';
import { SetClock, SqliteFolder } from '../../../support/sqlite/sqlite-file.js';
import { NO_RECORD, type Observation, type Subject } from '../compare.js';
import { encodeRecord, type Fields } from '../encoding.js';
import { sendStep } from '../send-step.js';
import type { Step } from '../step.js';

const COLUMNS = [
  ...[
    'state',
    'token',
    'fence',
    'fingerprint',
    'attempt',
    'takeovers',
    'expires_at',
    'lease_until',
  ],
  ...['lease_ms', 'deadline', 'origin', 'note', 'outcome_header', 'outcome_body'],
];

/** Runs `work` with a store on a file of its own. Each step sets the clock. */
export async function withSqliteSubject<Result>(
  work: (subject: Subject) => Promise<Result>,
): Promise<Result> {
  const folder = new SqliteFolder();
  const time = new SetClock();
  const store = folder.open({ deleteExpired: false }, time.clock);
  await store.open();
  // Reads and deletes rows without the store's own code.
  const database = folder.database();
  const read = database.prepare(
    `SELECT ${COLUMNS.join(', ')} FROM idempotency_records WHERE record_key = ?`,
  );
  const lose = database.prepare('DELETE FROM idempotency_records WHERE record_key = ?');

  const take = async (step: Step, key: RecordKey): Promise<Fields | undefined> => {
    if (step.operation === 'lose') {
      lose.run(key);
      return undefined;
    }
    time.nowMs = step.nowUs / 1_000;
    return sendStep(store, step, key, 10_000);
  };

  const observe = async (step: Step, key: RecordKey): Promise<Observation> => {
    const reply = await take(step, key).catch((error: unknown) => [String(error)]);
    const row = read.get(key);
    if (row === undefined) return { reply, ...NO_RECORD };
    return { reply, record: encodeRecord(storedRecord(row)), expiresAt: row.expires_at };
  };

  try {
    return await work(async (sequences, isExpected) => {
      const observed: Observation[][] = [];
      for (const [sequence, steps] of sequences.entries()) {
        const key = randomBytes(32).toString('base64url') as RecordKey;
        const observations: Observation[] = [];
        for (const [at, step] of steps.entries()) {
          const observation = await observe(step, key);
          observations.push(observation);
          if (!isExpected(sequence, at, observation)) break;
        }
        observed.push(observations);
      }
      return observed;
    });
  } finally {
    database.close();
    await store.close();
    folder.remove();
  }
}

function storedRecord(row: Record<string, any>): StoredRecord {
  const base = {
    token: row.token as OwnerToken,
    fence: row.fence,
    fingerprint: row.fingerprint as Fingerprint,
    attempt: row.attempt,
    takeovers: row.takeovers,
    expiresAt: row.expires_at,
    ...(row.note === null ? {} : { note: row.note as string }),
  };
  const outcome = { header: row.outcome_header, body: row.outcome_body };
  switch (row.state) {
    case 'in_progress':
      return {
        ...base,
        state: row.state,
        leaseUntil: row.lease_until,
        leaseMs: row.lease_ms,
        deadline: row.deadline,
        origin: row.origin ?? undefined,
      };
    case 'released':
      return { ...base, state: row.state };
    default:
      return { ...base, state: row.state, outcome };
  }
}
