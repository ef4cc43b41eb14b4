import { types } from 'node:util';
import { hasCode } from '../../../core/errors/errors.js';
import {
  isMysqlServerError,
  NoMysqlConnectionError,
  type MysqlServerError,
} from '../../../transactions/shared/mysql-connections.js';
import { StoreClosedError, type SendFailure } from '../../shared/send-failure.js';
import type { MysqlTable } from '../sql/table-name.js';

/** By the server's error number. Such an error undid the statement, which is a transaction of its own. */
const BY_NUMBER: Readonly<Record<number, SendFailure>> = {
  // Lock wait timeout, deadlock; MariaDB: the row has changed since the snapshot.
  1205: 'not_executed',
  1213: 'not_executed',
  1020: 'not_executed',
  // Too many connections, of the server or of the user.
  1040: 'not_executed',
  1203: 'not_executed',
  1226: 'not_executed',
  // Read-only: the next connection may lead to the primary.
  1290: 'not_executed',
  1792: 'not_executed',
  1836: 'not_executed',
  // The server no longer knows the prepared statement, or its table has changed: another connection prepares a new one.
  1243: 'not_executed',
  1615: 'not_executed',
  // Disk full, out of memory, table full, no sort memory.
  1021: 'rejected',
  1037: 'rejected',
  1041: 'rejected',
  1114: 'rejected',
  // The packet or the value is too large.
  1153: 'rejected',
  1301: 'rejected',
  1406: 'rejected',
  // Access denied, unknown database, missing table, column or right, syntax.
  1044: 'misconfigured',
  1045: 'misconfigured',
  1049: 'misconfigured',
  1054: 'misconfigured',
  1064: 'misconfigured',
  1130: 'misconfigured',
  1142: 'misconfigured',
  1143: 'misconfigured',
  1146: 'misconfigured',
  1227: 'misconfigured',
  1251: 'misconfigured',
  1698: 'misconfigured',
};

/** A replica, a demoted primary, or a session or transaction that may only read. */
const READ_ONLY: ReadonlySet<number> = new Set([1290, 1792, 1836]);

const LOST_STATEMENT: ReadonlySet<number> = new Set([1243, 1615, ...READ_ONLY]);

const REMEDIES: Readonly<Record<number, (table: MysqlTable) => string>> = {
  1040: () => 'Raise max_connections, or open fewer connections.',
  1044: () => 'Check the name of the database, and the rights of the user on it.',
  1045: () => 'Check the user name and the password.',
  1046: () => 'Name the database in "url" or "connection".',
  1049: () => 'Check the name of the database.',
  1054: missingMigration,
  1142: missingRight,
  1146: missingMigration,
  1153: () => 'Raise max_allowed_packet of the server.',
  1290: () => 'Connect to the primary. If this is the primary: SET GLOBAL read_only = OFF.',
  1114: () => 'Free disk space.',
};

export function classifyMysqlFailure(error: unknown): SendFailure {
  if (error instanceof StoreClosedError || error instanceof TooLargeError) return 'rejected';
  if (error instanceof NoMysqlConnectionError) {
    const failure = isMysqlServerError(error.cause) ? BY_NUMBER[error.cause.errno] : undefined;
    return failure ?? 'not_executed';
  }
  // Errors of the driver may follow the send: "Connection lost: The server closed the connection."
  return isMysqlServerError(error) ? (BY_NUMBER[error.errno] ?? byState(error)) : 'unknown';
}

/** Syntax errors and violated constraints. Others may occur between commit and reply: the server is stopping. */
function byState({ sqlState }: MysqlServerError): SendFailure {
  return /^(?:22|23|42)/.test(sqlState) ? 'misconfigured' : 'unknown';
}

export function isMysqlReadOnly(error: unknown): boolean {
  return isMysqlServerError(error) && READ_ONLY.has(error.errno);
}

/** Whether the connection may return to its pool: the error ended the statement only, and is not its fault. */
export function leavesMysqlConnectionUsable(error: unknown): boolean {
  // Not the connection's: the configuration, or what was not sent.
  if (error instanceof TooLargeError || hasCode(error, 'idempotency_store_misconfigured'))
    return true;
  if (!isMysqlServerError(error) || LOST_STATEMENT.has(error.errno)) return false;
  return !('fatal' in error && error.fatal === true);
}

/** A statement that the server would not read, and that would cost the connection: it is not sent. */
export class TooLargeError extends Error {
  override readonly name = 'TooLargeError';

  /** In bytes. */
  constructor(size: number, limit: number) {
    super(
      `the outcome has ${size} bytes, and max_allowed_packet of the server is ${limit}. Raise it, or keep large bodies in a blob store (option "blobs")`,
    );
  }
}

/** The failure as text. Never the error itself: it may contain values of the row. */
export function describeMysqlFailure(error: unknown, table: MysqlTable): string {
  const cause = error instanceof NoMysqlConnectionError ? (error.cause ?? error) : error;
  if (!types.isNativeError(cause)) return String(cause);
  const code = 'code' in cause && typeof cause.code === 'string' ? cause.code : cause.name;
  if (!isMysqlServerError(cause)) return cause.message === '' ? code : cause.message;
  const remedy = REMEDIES[cause.errno]?.(table);
  const text = `${code} (${cause.errno})${VALUE_FREE.has(cause.errno) ? `: ${cause.message}` : ''}`;
  return remedy === undefined ? text : `${text.replace(/\.?$/, '.')} ${remedy}`;
}

/** Errors whose message names accounts and tables only: those of duplicate keys and wrong values quote values. */
const VALUE_FREE: ReadonlySet<number> = new Set([
  ...[1040, 1044, 1045, 1046, 1049, 1054, 1064, 1130, 1142, 1143, 1146, 1205, 1213, 1227, 1290],
]);

function missingMigration(table: MysqlTable): string {
  return `Run the migrations: await store.migrate(), or npx nestjs-idempotency migrate ${table.commandOptions}`;
}

function missingRight({ table }: MysqlTable): string {
  return `The user requires SELECT, INSERT, UPDATE and DELETE on ${table} and ${table}_locks, and SELECT on ${table}_migrations.`;
}
