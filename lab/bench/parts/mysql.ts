import { randomBytes } from 'node:crypto';
import { createHistogram } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { createPool, type Pool, type RowDataPacket } from 'mysql2/promise';
import {
  storeBegin,
  storePair,
  storeReplay,
  type Task,
} from '../../measure/postgres/contestants.js';
import {
  findMariaDb,
  unpackNewest,
  type MysqlInstallation,
} from '../../../test/support/mysql/installations.js';
import { startMysql } from '../../../test/support/mysql/mysql-server.js';
import { loadEntry } from '../library/built-entry.js';
import { closedLoop, percentiles, record } from '../measuring/closed-loop.js';
import {
  interleave,
  spreadsOf,
  type Entrant,
  type Group,
  type Measurement,
  type Sample,
} from '../measuring/interleave.js';
import { withResources, type Resources } from '../measuring/resources.js';
import { installed } from '../measuring/versions.js';
import { roundsOf, type Part, type PartContext } from './part.js';

const CONNECTIONS = 16;
const KNOWN_KEYS = 2_000;

const ROUNDS = {
  quick: { rounds: 3, roundMs: 300, warmUpMs: 500 },
  default: { rounds: 7, roundMs: 1_000, warmUpMs: 1_000 },
} as const;

const EXPIRED = { quick: 50_000, default: 1_000_000 } as const;
/** As long as begins are measured with the deletion beside them, and without. */
const WINDOW_MS = 2_000;
/** Of an application with some traffic: the server has time left, or whatever runs beside it would count. */
const BEGINS_IN_FLIGHT = 4;
const PAUSE_MS = 5;

const ADDED_AT_ONCE = 10_000;

const TOKEN = randomBytes(16).toString('base64url');
const FINGERPRINT = randomBytes(16).toString('base64url');
const HEADER = Buffer.from('{"status":201,"headers":{"content-type":"application/json"}}');
const BODY = Buffer.alloc(200, 'x');
const RETENTION_MS = 86_400_000;
const DUPLICATE_KEY = 1062;

const INSERT = `INSERT INTO by_hand (
  record_key, version, state, token, fence, fingerprint, attempt, takeovers, lease_until, lease_ms, deadline, expires_at
) VALUES (?, 1, 'in_progress', ?, ?, ?, 1, 0, ?, 10000, ?, ?)`;

const NAMES = {
  ours: 'nestjs-idempotency',
  byHand: 'INSERT + UPDATE',
  replayByHand: 'INSERT, then SELECT',
  beside: 'begin, beside the deletion',
  alone: 'begin, alone',
};

type Mysql = typeof import('nestjs-idempotency/mysql');
type Mysql2 = typeof import('nestjs-idempotency/mysql2');

/** The store on the installed MariaDB and the newest MySQL beside the statements that one would write by hand, and begins beside a deletion. */
export const mysqlPart: Part = {
  name: 'mysql',
  needsPeers: false,
  run: (context) => measureMysql(context),
};

function measureMysql(context: PartContext) {
  const { onProgress } = context;
  const rounds = roundsOf(context, ROUNDS);
  return withResources(async (resources) => {
    const newest = await unpackNewest('mysql');
    resources.defer(() => newest.remove());
    const measurements: Measurement[] = [];
    const names: string[] = [];
    for (const installation of [findMariaDb() ?? [], ...newest.installations].flat()) {
      names.push(installation.name);
      const onServer = {
        ...context,
        onProgress: (text: string) => onProgress(`${installation.name}: ${text}`),
      };
      measurements.push(...(await measureOn(installation, onServer)));
    }
    return {
      measurements,
      rounds,
      versions: { servers: names.join(', '), mysql2: installed('mysql2') },
    };
  });
}

function measureOn(installation: MysqlInstallation, context: PartContext): Promise<Measurement[]> {
  const { library, onProgress, profile } = context;
  return withResources(async (resources) => {
    // As one runs it where money is at stake: a commit is on the disk before it is confirmed.
    const server = await startMysql(installation, {
      settings: { 'innodb-flush-log-at-trx-commit': '1', 'innodb-buffer-pool-size': '512M' },
    });
    resources.defer(() => server.stop());
    const pool = createPool({ uri: await server.newDatabase(), connectionLimit: CONNECTIONS });
    resources.defer(() => pool.end());
    const store = await openStore(resources, library, pool);
    await pool.query('CREATE TABLE by_hand LIKE idempotency_records');
    const factors = { server: installation.name };
    const known = Array.from({ length: KNOWN_KEYS }, newKey);
    for (const task of [storePair(store), pairByHand(pool)]) await once(known, task);
    const anyKnown = () => known[Math.floor(Math.random() * KNOWN_KEYS)]!;
    const entrant = (name: string, task: Task, key: () => Buffer): Entrant => ({
      name,
      run: (ms) => closedLoop(() => task(key()), { inFlight: CONNECTIONS, ms }),
    });
    const groups: Group[] = [
      {
        factors: { ...factors, task: 'pair' },
        entrants: [
          entrant(NAMES.ours, storePair(store), newKey),
          entrant(NAMES.byHand, pairByHand(pool), newKey),
        ],
      },
      {
        factors: { ...factors, task: 'replay' },
        entrants: [
          entrant(NAMES.ours, storeReplay(store), anyKnown),
          entrant(NAMES.replayByHand, replayByHand(pool), anyKnown),
        ],
      },
    ];
    const rounds = roundsOf(context, ROUNDS);
    const measured = await interleave(groups, rounds, (round) =>
      onProgress(`round ${round} of ${rounds.rounds}`),
    );
    const { beside, alone } = await whileDeleting(pool, store, EXPIRED[profile], onProgress);
    const begins = { ...factors, task: 'begin' };
    return [
      ...measured,
      { factors: begins, entrant: NAMES.beside, metrics: spreadsOf(beside) },
      { factors: begins, entrant: NAMES.alone, metrics: spreadsOf(alone) },
    ];
  });
}

/** Connections as the store opens them, through the pool that the statements by hand use, too. */
async function openStore(resources: Resources, library: string, pool: Pool) {
  const { mysqlStore } = await loadEntry<Mysql>(library, './mysql');
  const { fromMysql2 } = await loadEntry<Mysql2>(library, './mysql2');
  const store = mysqlStore({ executor: fromMysql2(pool), deleteExpired: false });
  resources.defer(() => store.close());
  await store.migrate();
  return store;
}

type Store = Awaited<ReturnType<typeof openStore>>;

/** By turns with and without the deletion at its default pace beside them, until all that has expired is gone. */
async function whileDeleting(
  pool: Pool,
  store: Store,
  count: number,
  onProgress: PartContext['onProgress'],
): Promise<{ beside: Sample[]; alone: Sample[] }> {
  onProgress(`${count} expired records`);
  await addExpired(pool, count);
  const [beside, alone]: [Sample[], Sample[]] = [[], []];
  const begins = () => pacedBegins(store);
  await begins();
  for (let left = count; left > 0;) {
    alone.push(await begins());
    const stop = new AbortController();
    const deletion = store.deleteExpired({ signal: stop.signal });
    const sample = await begins();
    stop.abort();
    const { deleted } = await deletion;
    if (deleted === 0) throw new Error(`${left} expired records were not deleted`);
    left -= deleted;
    onProgress(`${left} expired records left`);
    // The last window may have had nothing to delete for most of it.
    if (left > 0 || beside.length === 0) beside.push(sample);
    else alone.pop();
  }
  return { beside, alone };
}

/** First requests of new keys, of an application that has time left. */
async function pacedBegins(store: Store): Promise<Sample> {
  const begin = storeBegin(store);
  const latencies = createHistogram();
  const end = performance.now() + WINDOW_MS;
  const client = async () => {
    while (performance.now() < end) {
      const sentAt = performance.now();
      await begin(newKey());
      record(latencies, performance.now() - sentAt);
      await delay(PAUSE_MS);
    }
  };
  await Promise.all(Array.from({ length: BEGINS_IN_FLIGHT }, client));
  return { perSecond: (1_000 * latencies.count) / WINDOW_MS, ...percentiles(latencies) };
}

/** Completed records with a body, whose retention is over. */
async function addExpired(pool: Pool, count: number): Promise<void> {
  const digits = `(SELECT 0 AS n${' UNION ALL SELECT 1'.repeat(9)})`;
  for (let left = count; left > 0; left -= ADDED_AT_ONCE) {
    const tables = ['a', 'b', 'c', 'd'].map((name) => `${digits} AS ${name}`).join(' CROSS JOIN ');
    await pool.query(
      `INSERT INTO idempotency_records (
        record_key, version, state, token, fence, fingerprint, attempt, takeovers, expires_at, outcome_header, outcome_body
      ) SELECT RANDOM_BYTES(32), 1, 'completed', 'expired', 1, '-', 1, 0, FLOOR(1e12 + RAND() * 1e9), '{}', REPEAT('x', 200)
      FROM ${tables} LIMIT ?`,
      [Math.min(left, ADDED_AT_ONCE)],
    );
  }
}

/** What one would write by hand, into a table of the same columns and indexes, with prepared statements. */
function pairByHand(pool: Pool): Task {
  const update =
    "UPDATE by_hand SET state = 'completed', outcome_header = ?, outcome_body = ?, expires_at = ? WHERE record_key = ?";
  return async (key) => {
    await pool.execute(INSERT, insertValues(key));
    await pool.execute(update, [HEADER, BODY, Date.now() + RETENTION_MS, key]);
  };
}

/** The usual way to detect a retry: insert, conflict, select. */
function replayByHand(pool: Pool): Task {
  const select =
    'SELECT state, token, fence, fingerprint, expires_at, outcome_header, outcome_body FROM by_hand WHERE record_key = ?';
  return async (key) => {
    const isDuplicate = await pool.execute(INSERT, insertValues(key)).then(
      () => false,
      (error: unknown) => (error as { readonly errno?: number }).errno === DUPLICATE_KEY,
    );
    if (!isDuplicate) throw new Error('the key was new');
    const [rows] = await pool.execute<RowDataPacket[]>(select, [key]);
    if (rows.length !== 1) throw new Error('the row is not there');
  };
}

function insertValues(key: Buffer): (Buffer | string | number)[] {
  const now = Date.now();
  const ends = [10_000, 300_000, RETENTION_MS].map((ms) => now + ms);
  return [key, TOKEN, now * 1_000, FINGERPRINT, ...ends];
}

function newKey(): Buffer {
  return randomBytes(32);
}

async function once(keys: readonly Buffer[], task: Task): Promise<void> {
  const left = keys.values();
  const worker = async () => {
    for (const key of left) await task(key);
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, worker));
}
