import {
  asError,
  StoreConfigurationError,
  StoreUnavailableError,
} from '../../../core/errors/errors.js';
import {
  isExecutor,
  NoConnectionError,
  type PostgresConnection,
  type PostgresConnections,
  type PostgresResult,
} from '../../../transactions/shared/connections.js';
import { isServerError } from '../../../transactions/shared/sql-state.js';
import { classifyFailure, describeFailure } from '../connection/error-classification.js';
import { checkOut } from '../connection/query-with-timeout.js';
import type { TableName } from '../sql/table-name.js';
import {
  historySql,
  migrationsFor,
  migrationSql,
  schemaSql,
  type Migration,
} from './migrations.js';

/**
 * Runs the missing migrations, each in its own transaction. An advisory lock admits one process at a time; the others
 * wait, and find nothing to do. Without nonces: no request depends on what is read here, the start checks read it
 * again, and the next statement on the connection is verified.
 * @returns the numbers of the migrations that it ran.
 */
export async function runMigrations(
  pool: PostgresConnections,
  table: TableName,
): Promise<readonly number[]> {
  if (isExecutor(pool) && pool.kind === 'statement') throw withoutConnections(pool.name, table);
  return onConnection(pool, table, RUNS, async (connection) => {
    const done: number[] = [];
    for (;;) {
      const id = await runNext(connection, table);
      if (id === undefined) return done;
      done.push(id);
    }
  });
}

/** The migrations of a table, as its history has them. */
export interface SchemaState {
  readonly run: readonly Migration[];
  readonly missing: readonly Migration[];
  /** Numbers of those that a later version has run. */
  readonly later: readonly number[];
  readonly hasHistory: boolean;
}

/** Reads which migrations were run. */
export async function readSchema(
  pool: PostgresConnections,
  table: TableName,
): Promise<SchemaState> {
  const history = await onConnection(pool, table, READS, (connection) =>
    readHistory(connection, table),
  );
  const known = history ?? new Set();
  const all = migrationsFor(table);
  return {
    run: all.filter(({ id }) => known.has(id)),
    missing: all.filter(({ id }) => !known.has(id)),
    later: [...known].filter((found) => all.every(({ id }) => id !== found)),
    hasHistory: history !== undefined,
  };
}

/** How the message of a failure begins. */
interface Task {
  /** When the server cannot be reached. */
  readonly failed: string;
  readonly refused: string;
  /** When a right is missing: by default, those of the application's user are named. */
  readonly missingRight?: string;
}

const RUNS: Task = {
  failed: 'Not all migrations were run',
  refused: 'Cannot run the migrations',
  missingRight: 'Run them as a user that owns the table, or may create it in its schema.',
};

const READS: Task = {
  failed: 'Cannot read the history of the migrations',
  refused: 'Cannot read the history of the migrations',
};

async function onConnection<Result>(
  pool: PostgresConnections,
  table: TableName,
  task: Task,
  use: (connection: PostgresConnection) => Promise<Result>,
): Promise<Result> {
  try {
    const { connection, release } = await checkOut(pool);
    try {
      const result = await use(connection);
      release(true);
      return result;
    } catch (error) {
      // Its transaction may still be open.
      release(false);
      throw error;
    }
  } catch (error) {
    throw asStoreError(error, table, task);
  }
}

/** @returns the number of the migration, or `undefined` if none was missing. */
async function runNext(
  connection: PostgresConnection,
  table: TableName,
): Promise<number | undefined> {
  const run = (text: string) => query(connection, text);
  // After the wait for the lock, what was committed meanwhile must be visible.
  await run('BEGIN ISOLATION LEVEL READ COMMITTED');
  // It may wait for other processes, and later migrations for the table.
  await run('SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0');
  await run(`SELECT pg_advisory_xact_lock(${table.advisoryLock('migrations')})`);
  const known = await readHistory(connection, table);
  if (known === undefined) {
    if (!(await hasSchema(connection, table))) await run(schemaSql(table));
    await run(historySql(table));
  }
  const missing = migrationsFor(table).find(({ id }) => known?.has(id) !== true);
  if (missing !== undefined) await run(migrationSql(missing, table));
  await run('COMMIT');
  return missing?.id;
}

async function readHistory(
  connection: PostgresConnection,
  table: TableName,
): Promise<ReadonlySet<number> | undefined> {
  const text = 'SELECT to_regclass($1) IS NOT NULL AS exists';
  const found = await query(connection, text, [table.quotedHistory]);
  const [row] = found.rows as readonly { exists: boolean }[];
  if (row?.exists !== true) return undefined;
  const { rows } = await query(connection, `SELECT id FROM ${table.quotedHistory}`);
  return new Set((rows as readonly { id: number }[]).map(({ id }) => id));
}

async function hasSchema(connection: PostgresConnection, { schema }: TableName): Promise<boolean> {
  const text = 'SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1';
  const { rows } = await query(connection, text, [schema]);
  return rows.length > 0;
}

function query(
  connection: PostgresConnection,
  text: string,
  values: unknown[] = [],
): Promise<PostgresResult> {
  return new Promise((resolve, reject) => {
    connection.query({ text }, values, (error, result) => {
      if (error === null || error === undefined) resolve(result);
      else reject(asError(error));
    });
  });
}

function withoutConnections(executor: string, { commandOptions }: TableName): Error {
  return new StoreConfigurationError(
    `Cannot run the migrations: ${executor} runs each statement on another connection, and they are transactions. Run npx nestjs-idempotency migrate ${commandOptions}, or await migrate({ url }), before the application starts.`,
  );
}

function asStoreError(error: unknown, table: TableName, task: Task): Error {
  const { failed, refused, missingRight } = task;
  const cause = describeFailure(error, table);
  if (classifyFailure(error) !== 'misconfigured') {
    const isUnreachable = error instanceof NoConnectionError && !isServerError(error.cause);
    const remedy = isUnreachable ? '. Check host and port, and whether the server runs.' : '';
    return new StoreUnavailableError(`${failed}: ${cause}${remedy}`);
  }
  const isOfRight = isServerError(error) && error.code === '42501';
  return new StoreConfigurationError(
    isOfRight && missingRight !== undefined
      ? `${refused}: ${error.message}. ${missingRight}`
      : `${refused}: ${cause}`,
  );
}
