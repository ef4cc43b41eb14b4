import { types } from 'node:util';
import { NoConnectionError } from '../../../transactions/shared/connections.js';
import { isServerError, type ServerError } from '../../../transactions/shared/sql-state.js';
import { StoreClosedError, type SendFailure } from '../../shared/send-failure.js';
import type { TableName } from '../sql/table-name.js';

/** An error over a connection that could not prove to be in step: it may belong to another statement. */
export class UnprovenError extends Error {
  override readonly name = 'UnprovenError';

  constructor(override readonly cause: Error) {
    super(cause.message);
  }
}

/** By SQLSTATE. Such an error rolled the statement's transaction back. */
const BY_STATE: Readonly<Record<string, SendFailure>> = {
  // Serialization failure, deadlock.
  '40001': 'not_executed',
  '40P01': 'not_executed',
  // lock_timeout, statement_timeout or pg_cancel_backend.
  '55P03': 'not_executed',
  '57014': 'not_executed',
  // A replica, or a demoted primary: the next connection may lead to the primary.
  '25006': 'not_executed',
  // The server is starting, stopping, or out of connections.
  '57P03': 'not_executed',
  '53300': 'not_executed',
  // The plan of a prepared statement is outdated: another connection prepares a new one.
  '0A000': 'not_executed',
  // The prepared statement is missing, or another client's: see isStatementMixUp.
  '26000': 'not_executed',
  '42P05': 'not_executed',
};

/** By class of the SQLSTATE, its first two characters. */
const BY_CLASS: Readonly<Record<string, SendFailure>> = {
  '22': 'misconfigured',
  '23': 'misconfigured',
  '28': 'misconfigured',
  '3D': 'misconfigured',
  '3F': 'misconfigured',
  '42': 'misconfigured',
  // Out of memory, disk full.
  '53': 'rejected',
  '54': 'rejected',
  '55': 'rejected',
  // Input and output, damaged data.
  '58': 'rejected',
  XX: 'rejected',
};

export function classifyFailure(error: unknown): SendFailure {
  if (error instanceof StoreClosedError) return 'rejected';
  if (error instanceof NoConnectionError) return classifyConnectFailure(error.cause);
  // Errors of the driver may follow the send: "Connection terminated unexpectedly".
  return isServerError(error) ? classifyState(error.code) : 'unknown';
}

/** Nothing was sent. */
function classifyConnectFailure(error: unknown): SendFailure {
  if (isServerError(error)) {
    if (isStartupParameter(error)) return 'misconfigured';
    const failure = classifyState(error.code);
    return failure === 'unknown' ? 'not_executed' : failure;
  }
  if (!types.isNativeError(error)) return 'not_executed';
  // The driver has no password, or an unusable one.
  const isPassword = error.message.startsWith('SASL');
  return isPassword || isFileError(error) ? 'misconfigured' : 'not_executed';
}

/** Of a file that the URL names. What else fails in `read` is a socket; a directory opens, and cannot be read. */
function isFileError(error: Error): boolean {
  if (!('syscall' in error)) return false;
  return error.syscall === 'open' || ('code' in error && error.code === 'EISDIR');
}

/** Termination (57P01 and the like) may occur between commit and reply; so may any error that is not listed. */
function classifyState(state: string): SendFailure {
  return BY_STATE[state] ?? BY_CLASS[state.slice(0, 2)] ?? 'unknown';
}

/** Whether the connection may return to its pool: the error ended the statement only, and is not its fault. */
export function leavesConnectionUsable(error: unknown): boolean {
  return (
    isServerError(error) && error.severity === 'ERROR' && !['25006', '0A000'].includes(error.code)
  );
}

/**
 * Whether the name of a prepared statement is unknown, or in use: a pooler has switched the connection below, or several
 * clients share it. Nothing was executed, and without a name the statement needs nothing of the connection.
 */
export function isStatementMixUp(error: unknown): boolean {
  return isServerError(error) && (error.code === '26000' || error.code === '42P05');
}

/** Whether a pooler refused the connection because of a parameter of its start. PgBouncer has one code for all errors. */
export function isStartupParameter(error: unknown): boolean {
  return isServerError(error) && error.message.includes('startup parameter');
}

type Remedy = (table: TableName, error: ServerError) => string | undefined;

const REMEDIES: Readonly<Record<string, Remedy>> = {
  '42P01': missingMigration,
  '42703': missingMigration,
  '3F000': missingMigration,
  '42501': missingRight,
  '28P01': () => 'Check the user name and the password.',
  '28000': () => 'Check the user name, and the entries of pg_hba.conf.',
  '3D000': () => 'Check the name of the database.',
  '25006': () =>
    'Connect to the primary. If this is the primary: ALTER ROLE … RESET default_transaction_read_only.',
  '53300': () => 'Raise max_connections, or open fewer connections.',
  '53100': () => 'Free disk space.',
  '08P01': (_, error) =>
    isStartupParameter(error)
      ? 'Add it to ignore_startup_parameters of the pooler, or leave it out of "url" and "connection".'
      : undefined,
};

const NOT_POSTGRES = 'What replies there is not PostgreSQL: check host and port.';

/** What the driver says of a server's first reply, by how it begins. */
const DRIVER_REMEDIES: Readonly<Record<string, string>> = {
  'There was an error establishing an SSL connection': NOT_POSTGRES,
  'received invalid response': NOT_POSTGRES,
  'The server does not support SSL connections':
    'Switch TLS on at the server, or leave out sslmode and ssl of "url" and "connection".',
};

function driverRemedy(error: Error): string | undefined {
  if (isFileError(error)) return 'Check sslcert, sslkey and sslrootcert of the URL.';
  return Object.entries(DRIVER_REMEDIES).find(([start]) => error.message.startsWith(start))?.[1];
}

function missingMigration(table: TableName): string {
  return `Run the migrations: await store.migrate(), or npx nestjs-idempotency migrate ${table.commandOptions}`;
}

function missingRight({ quoted, quotedHistory, quotedSchema }: TableName, error: ServerError) {
  if (error.message.includes('row-level security')) return policyRemedy(quoted);
  if (error.message.includes('for schema ')) {
    return `The user requires USAGE on the schema: GRANT USAGE ON SCHEMA ${quotedSchema} TO …`;
  }
  return `The user requires SELECT, INSERT, UPDATE and DELETE on ${quoted}, and SELECT on ${quotedHistory}.`;
}

/** Of row level security. */
export function policyRemedy(table: string): string {
  return `Let the user read and write every row: CREATE POLICY idempotency ON ${table} TO … USING (true) WITH CHECK (true), or ALTER TABLE ${table} DISABLE ROW LEVEL SECURITY.`;
}

/** The failure as text. Never the error itself: it may contain values of the row. */
export function describeFailure(error: unknown, table: TableName): string {
  const isWrapped = error instanceof NoConnectionError || error instanceof UnprovenError;
  const cause = isWrapped ? (error.cause ?? error) : error;
  if (!types.isNativeError(cause)) return String(cause);
  const text = cause.message === '' ? errorCode(cause) : cause.message;
  const remedy = isServerError(cause) ? REMEDIES[cause.code]?.(table, cause) : driverRemedy(cause);
  return remedy === undefined ? text : `${text.replace(/\.?$/, '.')} ${remedy}`;
}

/** A failed connection to a host name with several addresses is an AggregateError without a message. */
function errorCode(error: Error): string {
  return 'code' in error && typeof error.code === 'string' ? error.code : error.name;
}
