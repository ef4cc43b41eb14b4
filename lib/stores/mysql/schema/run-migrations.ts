import { StoreConfigurationError, StoreUnavailableError } from '../../../core/errors/errors.js';
import type { MysqlConnections } from '../../../transactions/shared/mysql-connections.js';
import { classifyMysqlFailure, describeMysqlFailure } from '../connection/error-classification.js';
import { onConnection, type Send } from '../connection/on-connection.js';
import type { MysqlTable } from '../sql/table-name.js';
import { readOn } from '../statements/statement-runner.js';
import { historySql, MYSQL_MIGRATIONS, statementsOf, type MysqlMigration } from './migrations.js';

/** They may wait for another process, and for the table. */
const TIMEOUT_MS = 600_000;
const LOCK_WAIT_S = 300;
const READ_TIMEOUT_MS = 10_000;

/**
 * Runs the missing migrations. A lock of the server admits one process at a time; the others wait, and find nothing to do.
 * @returns the numbers of the migrations that it ran.
 */
export function runMysqlMigrations(
  pool: MysqlConnections,
  table: MysqlTable,
): Promise<readonly number[]> {
  return asStoreErrors(table, 'Not all migrations were run', () =>
    onConnection(pool, TIMEOUT_MS, async (send) => {
      const lock = table.lockName('migrations');
      const [locked] = await readOn(
        send,
        `SELECT ? AS nonce, GET_LOCK(${lock}, ${LOCK_WAIT_S}) AS got`,
        [],
      );
      if (Number(locked?.got) !== 1) {
        throw new StoreUnavailableError('Another process is running the migrations.');
      }
      try {
        return await runMissing(send, table);
      } finally {
        await readOn(send, `SELECT ? AS nonce, RELEASE_LOCK(${lock}) AS released`, []);
      }
    }),
  );
}

async function runMissing(send: Send, table: MysqlTable): Promise<readonly number[]> {
  await send(historySql(table), [], true);
  const known = (await readHistory(send, table)) ?? new Set();
  const missing = MYSQL_MIGRATIONS.filter(({ id }) => !known.has(id));
  for (const migration of missing) {
    for (const statement of statementsOf(migration, table)) await send(statement, [], true);
  }
  return missing.map(({ id }) => id);
}

/** The migrations of a table, as its history has them. */
export interface MysqlSchemaState {
  readonly run: readonly MysqlMigration[];
  readonly missing: readonly MysqlMigration[];
  /** Numbers of those that a later version has run. */
  readonly later: readonly number[];
  readonly hasHistory: boolean;
}

/** Reads which migrations were run. */
export async function readMysqlSchema(
  pool: MysqlConnections,
  table: MysqlTable,
): Promise<MysqlSchemaState> {
  const history = await asStoreErrors(table, 'Cannot read the history', () =>
    onConnection(pool, READ_TIMEOUT_MS, (send) => readHistory(send, table)),
  );
  const known = history ?? new Set();
  return {
    run: MYSQL_MIGRATIONS.filter(({ id }) => known.has(id)),
    missing: MYSQL_MIGRATIONS.filter(({ id }) => !known.has(id)),
    later: [...known].filter((found) => MYSQL_MIGRATIONS.every(({ id }) => id !== found)),
    hasHistory: history !== undefined,
  };
}

/** @returns the numbers of the migrations that were run; `undefined` without a history. */
export async function readHistory(
  send: Send,
  table: MysqlTable,
): Promise<ReadonlySet<number> | undefined> {
  const found = `SELECT ? AS nonce, count(*) AS found FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = '${table.table}_migrations'`;
  const [row] = await readOn(send, found, []);
  if (Number(row?.found) === 0) return undefined;
  const ids = `SELECT ? AS nonce, id FROM (SELECT 1 AS one) AS one LEFT JOIN ${table.quotedHistory} ON 1 = 1`;
  const rows = await readOn(send, ids, []);
  return new Set(rows.filter(({ id }) => id !== null).map(({ id }) => Number(id)));
}

/** @param failed - begins the message when the server cannot be reached. */
async function asStoreErrors<Result>(
  table: MysqlTable,
  failed: string,
  use: () => Promise<Result>,
): Promise<Result> {
  try {
    return await use();
  } catch (error) {
    if (error instanceof StoreUnavailableError) throw error;
    const cause = describeMysqlFailure(error, table);
    throw classifyMysqlFailure(error) === 'misconfigured'
      ? new StoreConfigurationError(`Cannot run the migrations: ${cause}`)
      : new StoreUnavailableError(`${failed}: ${cause}`);
  }
}
