import {
  asError,
  StoreConfigurationError,
  StoreUnavailableError,
} from '../../../core/util/errors.js';
import { classifyFailure, describeFailure } from '../connection/error-classification.js';
import type {
  PostgresConnection,
  PostgresPool,
  PostgresResult,
} from '../connection/postgres-client.js';
import { checkOut } from '../connection/query-with-timeout.js';
import type { TableName } from '../sql/table-name.js';
import { historySql, MIGRATIONS, migrationSql, schemaSql } from './migrations.js';

/**
 * Runs the migrations that are missing, each in a transaction of its own. An advisory lock lets one process at
 * a time do so; the others wait for it, look, and find nothing to do. No nonces: no caller is answered by what is read here,
 * the start checks look again, and the next statement on the connection is compared.
 *
 * @returns the numbers of those that were run.
 */
export async function runMigrations(
  pool: PostgresPool,
  table: TableName,
): Promise<readonly number[]> {
  try {
    const { connection, release } = await checkOut(pool);
    try {
      const done: number[] = [];
      for (;;) {
        const id = await runNext(connection, table);
        if (id === undefined) break;
        done.push(id);
      }
      release(true);
      return done;
    } catch (error) {
      // With its transaction still open.
      release(false);
      throw error;
    }
  } catch (error) {
    throw asStoreError(error, table);
  }
}

/** @returns the number of the migration, or undefined when none was missing. */
async function runNext(
  connection: PostgresConnection,
  table: TableName,
): Promise<number | undefined> {
  const run = (text: string) => ask(connection, text);
  // Whoever waits for the lock has to see what was committed meanwhile.
  await run('BEGIN ISOLATION LEVEL READ COMMITTED');
  // It may have to wait for other processes, and later migrations for the table.
  await run('SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0');
  await run(`SELECT pg_advisory_xact_lock(${table.advisoryLock('migrations')})`);
  const known = await readHistory(connection, table);
  if (known === undefined) {
    if (!(await hasSchema(connection, table))) await run(schemaSql(table));
    await run(historySql(table));
  }
  const missing = MIGRATIONS.find(({ id }) => known?.has(id) !== true);
  if (missing !== undefined) await run(migrationSql(missing, table));
  await run('COMMIT');
  return missing?.id;
}

async function readHistory(
  connection: PostgresConnection,
  table: TableName,
): Promise<ReadonlySet<number> | undefined> {
  const text = 'SELECT to_regclass($1) IS NOT NULL AS exists';
  const found = await ask(connection, text, [table.quotedHistory]);
  const [row] = found.rows as readonly { exists: boolean }[];
  if (row?.exists !== true) return undefined;
  const { rows } = await ask(connection, `SELECT id FROM ${table.quotedHistory}`);
  return new Set((rows as readonly { id: number }[]).map(({ id }) => id));
}

async function hasSchema(connection: PostgresConnection, { schema }: TableName): Promise<boolean> {
  const text = 'SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1';
  const { rows } = await ask(connection, text, [schema]);
  return rows.length > 0;
}

function ask(
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

function asStoreError(error: unknown, table: TableName): Error {
  const failure = classifyFailure(error);
  const cause = describeFailure(error, table);
  return failure === 'misconfigured'
    ? new StoreConfigurationError(`The migrations cannot be run: ${cause}`)
    : new StoreUnavailableError(`The migrations were not all run: ${cause}`);
}
