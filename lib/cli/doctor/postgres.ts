import { newProbeKey } from '../../core/record/record-key.js';
import type { StoreObserver, StoreWarning } from '../../core/store/idempotency-store.js';
import { nodeClock } from '../../core/util/clock.js';
import { within } from '../../core/util/time.js';
import { hasCode, isIdempotencyError } from '../../core/errors/errors.js';
import { describeFailure } from '../../stores/postgres/connection/error-classification.js';
import { endWithin, makeListeningClient, type OwnClient } from '../../stores/postgres/own-pool.js';
import type { PostgresIdempotencyStore } from '../../stores/postgres/postgres-idempotency-store.js';
import { postgresStore } from '../../stores/postgres/postgres-store.js';
import { TableName } from '../../stores/postgres/sql/table-name.js';
import { checkServices, StepChecks } from '../../core/store/diagnosis/check-steps.js';
import { error, findingsOf, ok, type Finding } from '../../core/store/diagnosis/finding.js';
import { checkClock, checkLatency } from '../../core/store/diagnosis/measure.js';
import {
  checkDeletion,
  checkPrivileges,
  checkSettings,
  checkVacuum,
  CLOCK_SQL,
  expiredSql,
  POSTGRES_WARNINGS,
  PRIVILEGES_SQL,
  SERVER_SQL,
  VACUUM_SQL,
  type Row,
} from '../../stores/postgres/diagnosis/server-checks.js';
import { ServerAddress } from './server-address.js';

export interface PostgresDoctorOptions {
  readonly url: string;
  readonly schema?: string | undefined;
  readonly table?: string | undefined;
  readonly preparedStatements?: boolean | undefined;
}

const TIMEOUT_MS = 2_000;
const DEFAULT_PORT = 5432;
const PUSH_REMEDY =
  'LISTEN requires a connection to the server itself: behind a pooler in transaction mode, set listenUrl.';

/** What stops the start, and the check that it belongs to. */
const CHECKS = [
  [/^Migrations/, 'migrations'],
  [/^(The user may not|Row level security)/, 'rights'],
] as const;

/** Columns as the server sends them, whatever the application has set pg to. */
const AS_SENT = { getTypeParser: () => (sent: unknown) => sent };

/**
 * Checks a PostgreSQL server and the table of the store.
 * @throws {@link IdempotencyOptionsError} when an option is invalid.
 */
export async function* diagnosePostgres(options: PostgresDoctorOptions): AsyncGenerator<Finding> {
  const address = new ServerAddress(options.url, DEFAULT_PORT);
  let client: OwnClient;
  try {
    client = await makeListeningClient(options);
  } catch (failure) {
    if (isIdempotencyError(failure)) throw failure;
    // The driver reads the files that the URL names.
    yield error('connection', address.redact(describeFailure(failure, new TableName(options))));
    return;
  }
  const subject = new PostgresDiagnosis(options, address, client);
  try {
    yield* subject.run();
  } finally {
    await subject.close();
  }
}

/** The store, and a connection besides it for questions. */
class PostgresDiagnosis {
  private readonly store: PostgresIdempotencyStore;
  private readonly table: TableName;

  constructor(
    options: PostgresDoctorOptions,
    private readonly address: ServerAddress,
    private readonly client: OwnClient,
  ) {
    this.store = postgresStore({ ...options, deleteExpired: false });
    this.table = new TableName(options);
    // The next query reports it.
    client.on('error', () => undefined);
  }

  async *run(): AsyncGenerator<Finding> {
    const { shown, database } = this.address;
    try {
      await this.client.connect();
      yield ok('connection', `Connected to ${shown}, database "${database}".`);
      yield* this.checks();
    } catch (failure) {
      yield error('connection', this.describe(failure));
    }
  }

  async close(): Promise<void> {
    await this.store.close();
    await endWithin(this.client);
  }

  private async *checks(): AsyncGenerator<Finding> {
    const { table } = this;
    const server = await this.read(SERVER_SQL);
    const started = await this.start();
    yield* checkSettings(server, started);
    if (started.some(({ verdict }) => verdict === 'error')) return;
    yield ok('migrations', `All migrations of ${table.quoted} were run.`);
    const privileges = checkPrivileges(await this.read(PRIVILEGES_SQL, table.quoted), table);
    yield privileges;
    if (privileges.verdict !== 'ok') return;
    yield* await this.steps();
    yield await checkClock(async () => Number((await this.read(CLOCK_SQL)).now));
    yield checkVacuum(server, await this.read(VACUUM_SQL, table.quoted));
    yield checkDeletion(await this.read(expiredSql(table)));
  }

  /** What stops the store's start is an error. */
  private async start(): Promise<Finding[]> {
    const warned: StoreWarning[] = [];
    const observer: StoreObserver = {
      // The steps report it.
      replyMismatched: () => undefined,
      warned: (warning) => warned.push(warning),
    };
    try {
      const found = await this.store.open(observer);
      return findingsOf([...found, ...warned], POSTGRES_WARNINGS, this.redact);
    } catch (failure) {
      if (hasCode(failure, 'idempotency_options_invalid')) throw failure;
      const text = this.describe(failure);
      return [error(CHECKS.find(([start]) => start.test(text))?.[1] ?? 'start', text)];
    }
  }

  private async steps(): Promise<Finding[]> {
    const { store } = this;
    const found = await new StepChecks(store, PUSH_REMEDY).run(this.describe);
    if (found.some(({ verdict }) => verdict === 'error')) return found;
    const ask = () => store.inspect(newProbeKey(nodeClock), { timeoutMs: TIMEOUT_MS });
    return [...found, await checkServices(store), await checkLatency(ask)];
  }

  private async read(text: string, ...values: unknown[]): Promise<Row> {
    const query = { text, values, types: AS_SENT };
    const { rows } = await within(TIMEOUT_MS, this.client.query(query), nodeClock);
    return (rows[0] ?? {}) as Row;
  }

  private readonly redact = (text: string): string => this.address.redact(text);

  private readonly describe = (failure: unknown): string =>
    this.redact(
      isIdempotencyError(failure) ? failure.message : describeFailure(failure, this.table),
    );
}
