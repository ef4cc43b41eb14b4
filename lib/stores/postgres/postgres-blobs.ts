import { asError, hasCode, StoreConfigurationError } from '../../core/errors/errors.js';
import {
  flag,
  integer,
  resolveOptions,
  type Defaulted,
  type Schema,
} from '../../core/options/option-schema.js';
import type { BlobStore } from '../../core/payload/blob-store.js';
import { diagnoseBlobs } from '../../core/payload/diagnose-blobs.js';
import type { StoreWarning } from '../../core/record/store-warning.js';
import type { Finding, Place } from '../../core/store/diagnosis/finding.js';
import { Openings } from '../../core/store/openings.js';
import type { OpenTransaction } from '../../core/transaction/unit-of-work.js';
import { probeBlobs } from '../../blobs/shared/probe-blobs.js';
import type { PostgresConnections } from '../../transactions/shared/connections.js';
import { queryInTransaction } from '../../transactions/shared/sql-reply.js';
import { hasSqlState } from '../../transactions/shared/sql-state.js';
import type { SqlTransaction } from '../../transactions/shared/sql-transaction.js';
import {
  DELETION,
  type DeletionOptions,
  type ResolvedDeletionOptions,
} from '../shared/deletion.js';
import { deleteExpired, deletionFailed } from './cleanup/delete-expired.js';
import { DeletionSchedule } from '../shared/deletion-schedule.js';
import { Deadline } from './connection/deadline.js';
import { LazyPool, loadPg } from './own-pool.js';
import { statementsUnnamed } from './postgres-idempotency-store.js';
import {
  checkExecutor,
  OWN,
  type ExecutorOptions,
  type OwnPoolOptions,
} from './postgres-store-options.js';
import { runMigrations } from './schema/run-migrations.js';
import {
  loadBlobStatements,
  ON_PRIMARY,
  sqlStatement,
  type BlobStatements,
  type SqlStatement,
} from './sql/sql-statements.js';
import { BLOB_TABLE, TableName, type TableOptions } from './sql/table-name.js';
import { POSTGRES_WARNINGS } from './diagnosis/server-checks.js';
import { checkServer } from './diagnosis/start-checks.js';
import { sqlOf } from './statements/records-in-transaction.js';
import { StatementRunner } from './statements/statement-runner.js';
import { TableBlobs, type RunStatement } from './statements/table-blobs.js';

/** Options of {@link postgresBlobs}: either an `executor`, or what opening connections requires. */
export type PostgresBlobsOptions = BlobTableOptions &
  (
    | Pick<ExecutorOptions, 'executor' | 'url' | 'connection'>
    | Pick<OwnPoolOptions, 'executor' | 'url' | 'connection'>
  );

/** Where and how {@link postgresBlobs} keeps blobs, and how it deletes those that have expired. */
export interface BlobTableOptions extends DeletionOptions {
  /** The schema of the table. @defaultValue 'public' */
  readonly schema?: string | undefined;

  /**
   * The table of the blobs. Its history is in `{table}_migrations`. At most 50 bytes.
   * @defaultValue 'idempotency_blobs'
   */
  readonly table?: string | undefined;

  /** Bytes of a part. A put and a read hold about three of them. @defaultValue 262_144, from 4_096 to 16_777_216 */
  readonly chunkBytes?: number | undefined;

  /** As in {@link PostgresStoreOptions}. @defaultValue true */
  readonly preparedStatements?: boolean | undefined;
}

type PartOptions = Omit<BlobTableOptions, keyof TableOptions | keyof DeletionOptions>;

const PARTS: Schema<PartOptions, Defaulted<PartOptions>> = {
  chunkBytes: integer({ default: 262_144, min: 4_096, max: 16_777_216 }),
  preparedStatements: flag(true),
};

/** For the documentation. */
export const POSTGRES_BLOBS: object = { ...BLOB_TABLE, ...PARTS };

type Resolved = Defaulted<PartOptions> & ResolvedDeletionOptions;

/**
 * Keeps each blob in the rows of a table of PostgreSQL ≥ 13: for those who have no object store, and for operations with
 * `transaction`, whose blobs then commit with their records. Create the table by its migrations: `await blobs.migrate()`,
 * or `npx nestjs-idempotency migrate --blobs`.
 * @example
 * ```ts
 * const blobs = postgresBlobs({ url: 'postgres://localhost/shop' });
 * ```
 * @throws {@link IdempotencyOptionsError} when an option is invalid. When pg is required but not installed, `open()`
 * throws it.
 */
export function postgresBlobs(options: PostgresBlobsOptions): PostgresBlobs {
  const schema = { ...PARTS, ...DELETION, url: OWN.url, connection: OWN.connection };
  const others = ['executor', ...Object.keys(BLOB_TABLE)];
  const resolved = resolveOptions<PartOptions & DeletionOptions, Resolved>(
    'postgresBlobs',
    schema,
    options,
    { others },
  );
  checkExecutor('postgresBlobs', options);
  const { executor, schema: schemaName, table } = options;
  const pool = executor ?? new LazyPool(options, resolved.preparedStatements);
  return new OwnTableBlobs(pool, new TableName({ schema: schemaName, table }, 'blobs'), resolved);
}

/** Of one statement. */
const STATEMENT_TIMEOUT_MS = 10_000;

/** Blobs in a table of PostgreSQL. Created by {@link postgresBlobs}. */
export interface PostgresBlobs extends BlobStore {
  /**
   * Creates the table, or migrates it to this version. Any number of processes may run it at once.
   * @returns the numbers of the migrations that it ran.
   * @throws {@link StoreConfigurationError} when the user lacks a privilege.
   * @throws {@link StoreUnavailableError} when the server cannot be reached.
   */
  migrate(): Promise<readonly number[]>;

  /**
   * The same store in a transaction of `PostgresUnitOfWork`, whose user needs SELECT on the table's history, too. A put
   * rejects with a {@link StoreConfigurationError} if it is a transaction of another database: its blobs would not be found.
   * @throws {@link StoreConfigurationError} if it has no `query()`.
   */
  inTransaction(transaction: OpenTransaction): BlobStore;
}

const PLACES: Readonly<Record<string, Place>> = {
  ...POSTGRES_WARNINGS,
  blobs_index_missing: ['index', 'warning'],
};

/** $1: the table. After the nonce: whether an index begins with the expiry. */
const EXPIRY_INDEX = sqlStatement(
  'blobs_index',
  `${ON_PRIMARY}SELECT concat_ws(' ', $2::text, EXISTS (
  SELECT FROM pg_catalog.pg_index
  JOIN pg_catalog.pg_attribute ON attrelid = indrelid AND attnum = indkey[0]
  WHERE indrelid = to_regclass($1)::oid AND indisvalid AND attname = 'expires_at'
)) AS reply`,
);

const UNDEFINED_TABLE: ReadonlySet<string> = new Set(['42P01', '3F000']);

class BlobsInTransaction extends TableBlobs {
  private readonly end: AbortController;

  /** @param check - is called before each put, with what sends its statements. */
  constructor(
    transaction: SqlTransaction,
    statements: BlobStatements,
    chunkBytes: number,
    private readonly check: (run: RunStatement) => Promise<void>,
  ) {
    const end = new AbortController();
    const run: RunStatement = async ({ text }, values) => {
      end.signal.throwIfAborted();
      return queryInTransaction(transaction, text, values);
    };
    super(run, statements, chunkBytes);
    this.end = end;
  }

  protected override prepare(signal: AbortSignal): Promise<void> {
    // What has given up the put ends the transaction, and its connection goes to another request.
    const end = () => {
      this.end.abort(signal.reason);
    };
    signal.addEventListener('abort', end, { once: true });
    return this.check(this.run);
  }
}

class OwnTableBlobs extends TableBlobs implements PostgresBlobs {
  private readonly runner: StatementRunner;
  private readonly openings = new Openings();
  private deletion: DeletionSchedule | undefined;
  private asked: Promise<string> | undefined;
  /** Its name, and the instant in which the table was created there. */
  private readonly database: SqlStatement;

  constructor(
    private readonly pool: PostgresConnections,
    private readonly table: TableName,
    private readonly options: Resolved,
    private readonly blobStatements: BlobStatements = loadBlobStatements(table),
  ) {
    const warn = ({ message }: StoreWarning) => {
      process.emitWarning(message, {
        type: 'IdempotencyWarning',
        code: 'IDEMPOTENCY_POSTGRES_POOLER',
      });
    };
    const runner = new StatementRunner(
      pool,
      table,
      options.preparedStatements,
      () => undefined,
      (cause) => {
        warn(statementsUnnamed(cause));
      },
    );
    super(
      (statement, values) => runner.run(statement, values, new Deadline(STATEMENT_TIMEOUT_MS)),
      blobStatements,
      options.chunkBytes,
    );
    if (pool instanceof LazyPool) pool.onWarning = warn;
    this.runner = runner;
    this.database = sqlStatement(
      'blobs_database',
      `${ON_PRIMARY}SELECT concat_ws(' ', $1::text, md5(current_database()), (extract(epoch FROM run_at) * 1000000)::bigint) AS reply FROM ${table.quotedHistory} WHERE id = 1`,
    );
  }

  override async open(): Promise<readonly StoreWarning[]> {
    this.openings.add(undefined);
    this.runner.isClosed = false;
    try {
      await this.loadDriver();
      const { deleteExpired: interval } = this.options;
      const warnings = await checkServer(this.runner, this.table, interval !== false);
      const isOutage = warnings.some((warning) => warning.isOutage);
      const probed = isOutage ? [] : [...(await this.probe()), ...(await this.checkIndex())];
      // Now, and not when a transaction has a connection and waits for this one.
      if (!isOutage) await this.ownDatabase().catch(() => undefined);
      this.startDeletion();
      return [...warnings, ...probed];
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  async migrate(): Promise<readonly number[]> {
    await this.loadDriver();
    return runMigrations(this.pool, this.table);
  }

  override inTransaction(transaction: OpenTransaction): BlobStore {
    const { blobStatements, options } = this;
    const check = (run: RunStatement) => this.checkDatabase(run);
    return new BlobsInTransaction(sqlOf(transaction), blobStatements, options.chunkBytes, check);
  }

  override diagnose(): AsyncIterable<Finding> {
    const { quoted } = this.table;
    return diagnoseBlobs(this, PLACES, {
      role: 'A primary.',
      durability: 'fsync and synchronous_commit are on.',
      table: `All migrations of ${quoted} were run, and the user has the rights that the store needs.`,
      index: 'Expired blobs are found by an index.',
    });
  }

  override async close(): Promise<void> {
    if (!this.openings.remove(undefined)) return;
    const { deletion, pool } = this;
    this.deletion = undefined;
    this.runner.isClosed = true;
    await deletion?.stop();
    if (pool instanceof LazyPool) await pool.end();
  }

  /** @throws {@link StoreConfigurationError} if `run` sends statements to another database. */
  private async checkDatabase(run: RunStatement): Promise<void> {
    const own = await this.ownDatabase();
    const found = await this.databaseOf(run).catch((error: unknown) => {
      if (hasSqlState(error, UNDEFINED_TABLE)) return undefined;
      throw error;
    });
    if (found === own) return;
    const { quoted } = this.table;
    throw new StoreConfigurationError(
      `postgresBlobs and "unitOfWork" use different databases: a blob that a transaction puts into ${quoted} there would not be found. Give postgresBlobs the database of "unitOfWork" and "store", or use fileBlobs or s3Blobs.`,
    );
  }

  private ownDatabase(): Promise<string> {
    this.asked ??= this.databaseOf(this.run);
    return this.asked.catch((error: unknown) => {
      this.asked = undefined;
      throw error;
    });
  }

  private async databaseOf(run: RunStatement): Promise<string> {
    return (await run(this.database, [])).join(' ');
  }

  private async probe(): Promise<StoreWarning[]> {
    try {
      await probeBlobs(this);
      return [];
    } catch (error) {
      const { cause, message } = asError(error);
      if (hasCode(cause, 'idempotency_store_misconfigured')) throw cause;
      return [{ code: 'blobs_unreachable', message, isOutage: true }];
    }
  }

  private async checkIndex(): Promise<StoreWarning[]> {
    if (this.options.deleteExpired === false) return [];
    const { quoted } = this.table;
    try {
      const [isThere] = await this.run(EXPIRY_INDEX, [quoted]);
      if (isThere !== 'f') return [];
    } catch {
      // Another database that speaks its protocol, or an outage since: the deletion reports that.
      return [];
    }
    return [
      {
        code: 'blobs_index_missing',
        message: `The table ${quoted} has no index on expires_at: each deletion of what has expired reads all of it. Create it: CREATE INDEX ON ${quoted} (expires_at)`,
      },
    ];
  }

  private async loadDriver(): Promise<void> {
    if (this.pool instanceof LazyPool) await loadPg();
  }

  private startDeletion(): void {
    const { deleteExpired: interval, ...listeners } = this.options;
    // Closed meanwhile: start no timer.
    if (interval === false || this.runner.isClosed) return;
    const statement = this.blobStatements['delete-expired'];
    this.deletion ??= new DeletionSchedule(
      deletionFailed,
      (from, options) =>
        deleteExpired(this.runner, statement, this.table, options, from, () => undefined),
      interval,
      listeners,
    );
    this.deletion.start();
  }
}
