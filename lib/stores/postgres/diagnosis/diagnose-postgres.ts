import { checkSteps } from '../../../core/store/diagnosis/check-steps.js';
import {
  error,
  findingsOf,
  messageOf,
  ok,
  type Finding,
} from '../../../core/store/diagnosis/finding.js';
import { checkClock } from '../../../core/store/diagnosis/measure.js';
import type { Steps } from '../../../core/store/diagnosis/trial.js';
import type { StoreWarning } from '../../../core/store/idempotency-store.js';
import { isIdempotencyError } from '../../../core/errors/errors.js';
import { nodeClock } from '../../../core/util/clock.js';
import { hostAndPort } from '../../../core/util/host-and-port.js';
import { within } from '../../../core/util/time.js';
import type { PostgresConnections } from '../../../transactions/shared/connections.js';
import { Deadline } from '../connection/deadline.js';
import { StoreClosedError } from '../../shared/send-failure.js';
import { describeFailure } from '../connection/error-classification.js';
import { checkOut } from '../connection/query-with-timeout.js';
import { ON_PRIMARY, sqlStatement } from '../sql/sql-statements.js';
import { TableName } from '../sql/table-name.js';
import type { SqlValue, StatementRunner } from '../statements/statement-runner.js';
import {
  checkDeletion,
  checkPrivileges,
  checkSettings,
  checkVacuum,
  CLOCK_SQL,
  expiredSql,
  JOURNAL_SQL,
  oldestSql,
  POSTGRES_WARNINGS,
  PRIVILEGES_SQL,
  SERVER_SQL,
  VACUUM_SQL,
  type Row,
} from './server-checks.js';
import { checkServer } from './start-checks.js';

/** The store that is checked. */
export interface PostgresSubject {
  readonly store: Steps;
  readonly pool: PostgresConnections;
  readonly runner: StatementRunner;
  readonly table: TableName;
  /** The table of the journal, if it is on. */
  readonly journal: TableName | undefined;
  /** Whether the store deletes expired records. */
  readonly deletes: boolean;
  /** What the use of connections has shown by now. */
  readonly warned: () => Iterable<StoreWarning>;
}

const TIMEOUT_MS = 2_000;
/** Longer than the store's own pool waits, whose error says more. */
const CONNECT_TIMEOUT_MS = 3_000;
const PUSH_REMEDY =
  'LISTEN requires a connection to the server itself: behind a pooler in transaction mode, set listenUrl.';

/** What stops the start, and the check that it belongs to. */
const CHECKS = [
  [/^Migrations/, 'migrations'],
  [/^(The user may not|Row level security)/, 'rights'],
] as const;

/** Checks a PostgreSQL server and the table of the store, through its pool. */
export async function* diagnosePostgres(subject: PostgresSubject): AsyncGenerator<Finding> {
  const { pool, runner, table } = subject;
  try {
    if (runner.isClosed) throw new StoreClosedError();
    yield ok('connection', `Connected to ${await placeOf(pool)}.`);
    yield* checks(subject);
  } catch (failure) {
    const isOfStore = isIdempotencyError(failure);
    yield error('connection', isOfStore ? messageOf(failure) : describeFailure(failure, table));
  }
}

/** What a client of pg says of itself; a wrapper may not. */
interface Place {
  readonly host?: string;
  readonly port?: number;
  readonly database?: string;
}

/** Where the connections of a pool lead. */
async function placeOf(pool: PostgresConnections): Promise<string> {
  const opening = checkOut(pool).then(({ connection, release }) => {
    release(true);
    return connection;
  });
  const place = (await within(CONNECT_TIMEOUT_MS, opening, nodeClock)) as Place;
  const { host, port, database } = place;
  if (host === undefined || port === undefined) return 'the server of the pool';
  const server = host.startsWith('/') ? 'a local socket' : host;
  return `${hostAndPort(server, port)}, database "${database ?? ''}"`;
}

async function* checks(subject: PostgresSubject): AsyncGenerator<Finding> {
  const { store, runner, table, journal, deletes } = subject;
  const read = (text: string, ...values: SqlValue[]) => readRow(runner, text, values);
  const server = await read(SERVER_SQL);
  const started = await start(subject);
  yield* checkSettings(server, started);
  if (started.some(({ verdict }) => verdict === 'error')) return;
  const tables = journal === undefined ? table.quoted : `${table.quoted} and ${journal.quoted}`;
  yield ok('migrations', `All migrations of ${tables} were run.`);
  const privileges = checkPrivileges(await read(PRIVILEGES_SQL, table.quoted), table, deletes);
  yield privileges;
  if (privileges.verdict !== 'ok') return;
  const failed = yield* checkSteps(store, PUSH_REMEDY);
  if (failed?.check === 'connection') return;
  yield await checkClock(async () => Number((await read(CLOCK_SQL)).now));
  yield checkVacuum(server, await read(VACUUM_SQL, table.quoted));
  yield checkDeletion(await read(expiredSql(table)));
  yield* checkJournal(journal ?? new TableName({ schema: table.schema }, 'journal'), read);
}

/** Whether there is one, and how far back it goes. Nothing where there is none. */
async function* checkJournal(
  journal: TableName,
  read: (text: string, ...values: SqlValue[]) => Promise<Row>,
): AsyncGenerator<Finding> {
  const { entries, is_readable: isReadable } = await read(JOURNAL_SQL, journal.quoted);
  if (entries === undefined || entries === null) return;
  const oldest = isReadable === 'true' ? (await read(oldestSql(journal))).oldest : undefined;
  const from = oldest === undefined || oldest === null ? '' : `, the oldest of ${oldest}`;
  yield ok('journal', `The table ${journal.quoted} has about ${entries} entries${from}.`);
}

/** What stops the store's start is an error. */
async function start({ runner, table, journal, warned }: PostgresSubject): Promise<Finding[]> {
  try {
    // The privileges are a check of their own, which names all that are missing.
    const found = await checkServer(runner, table, false, journal);
    return findingsOf([...found, ...warned()], POSTGRES_WARNINGS);
  } catch (failure) {
    const text = messageOf(failure);
    return [error(CHECKS.find(([begin]) => begin.test(text))?.[1] ?? 'start', text)];
  }
}

/** As JSON: a reply is one column of words after the nonce. */
async function readRow(runner: StatementRunner, text: string, values: SqlValue[]): Promise<Row> {
  const nonce = `$${values.length + 1}::text`;
  const statement = sqlStatement(
    'doctor',
    `${ON_PRIMARY}SELECT concat_ws(' ', ${nonce}, to_json(found)) AS reply FROM (${text}) AS found`,
  );
  const words = await runner.run(statement, values, new Deadline(TIMEOUT_MS));
  const asText = (_name: string, value: string | number | boolean | object | null) =>
    typeof value === 'object' ? value : String(value);
  return JSON.parse(words.join(' '), asText) as Row;
}
