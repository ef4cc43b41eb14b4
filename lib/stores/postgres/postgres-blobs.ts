import { asError, hasCode, IdempotencyOptionsError } from '../../core/errors/errors.js';
import {
  flag,
  integer,
  resolveOptions,
  type Defaulted,
  type Schema,
} from '../../core/options/option-schema.js';
import type { BlobStore } from '../../core/payload/blob-store.js';
import type { StoreWarning } from '../../core/record/store-warning.js';
import { checkConnection } from '../../core/store/connection-options.js';
import { Openings } from '../../core/store/openings.js';
import type { OpenTransaction } from '../../core/transaction/unit-of-work.js';
import { probeBlobs } from '../../blobs/shared/probe-blobs.js';
import { queryInTransaction } from '../../transactions/shared/sql-reply.js';
import {
  DELETION,
  deleteExpired,
  type DeletionOptions,
  type ResolvedDeletionOptions,
} from './cleanup/delete-expired.js';
import { DeletionSchedule } from './cleanup/deletion-schedule.js';
import { Deadline } from './connection/deadline.js';
import { isPostgresPool } from './connection/postgres-client.js';
import { LazyPool, loadPg } from './own-pool.js';
import { statementsUnnamed } from './postgres-idempotency-store.js';
import { OWN, type OwnPoolOptions, type UserPoolOptions } from './postgres-store-options.js';
import { runMigrations } from './schema/run-migrations.js';
import { loadBlobStatements, type BlobStatements } from './sql/sql-statements.js';
import { BLOB_TABLE, TableName, type TableOptions } from './sql/table-name.js';
import { checkServer } from './diagnosis/start-checks.js';
import { sqlOf } from './statements/records-in-transaction.js';
import { StatementRunner } from './statements/statement-runner.js';
import { TableBlobs } from './statements/table-blobs.js';

/** Options of {@link postgresBlobs}: either a `client`, or what opening connections requires. */
export type PostgresBlobsOptions = BlobTableOptions &
  (
    | Pick<UserPoolOptions, 'client' | 'url' | 'connection'>
    | Pick<OwnPoolOptions, 'client' | 'url' | 'connection'>
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
 * or the output of `npx nestjs-idempotency migrations --blobs`.
 * @example
 * ```ts
 * const blobs = postgresBlobs({ url: 'postgres://localhost/shop' });
 * ```
 * @throws {@link IdempotencyOptionsError} when an option is invalid. When pg is required but not installed, `open()`
 * throws it.
 */
export function postgresBlobs(options: PostgresBlobsOptions): PostgresBlobs {
  const schema = { ...PARTS, ...DELETION, url: OWN.url, connection: OWN.connection };
  const others = ['client', ...Object.keys(BLOB_TABLE)];
  const resolved = resolveOptions<PartOptions & DeletionOptions, Resolved>(
    'postgresBlobs',
    schema,
    options,
    { others },
  );
  checkConnection('postgresBlobs', options, ['url', 'connection']);
  const { client } = options;
  if (client !== undefined && !isPostgresPool(client)) {
    throw new IdempotencyOptionsError(
      'postgresBlobs: client must be a Pool of pg 8, not a single Client.',
    );
  }
  const { schema: schemaName, table } = options;
  const pool = client ?? new LazyPool(options, resolved.preparedStatements);
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

  /** The same store in a transaction of `PostgresUnitOfWork`. */
  inTransaction(transaction: OpenTransaction): BlobStore;
}

class OwnTableBlobs extends TableBlobs implements PostgresBlobs {
  private readonly runner: StatementRunner;
  private readonly openings = new Openings();
  private deletion: DeletionSchedule | undefined;

  constructor(
    private readonly pool: UserPoolOptions['client'],
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
  }

  override async open(): Promise<readonly StoreWarning[]> {
    this.openings.add(undefined);
    this.runner.isClosed = false;
    try {
      await this.loadDriver();
      const { deleteExpired: interval } = this.options;
      const warnings = await checkServer(this.runner, this.table, interval !== false);
      const isOutage = warnings.some((warning) => warning.isOutage);
      const probed = isOutage ? [] : await this.probe();
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
    const sql = sqlOf(transaction);
    return new TableBlobs(
      ({ text }, values) => queryInTransaction(sql, text, values),
      this.blobStatements,
      this.options.chunkBytes,
    );
  }

  override async close(): Promise<void> {
    if (!this.openings.remove(undefined)) return;
    const { deletion, pool } = this;
    this.deletion = undefined;
    this.runner.isClosed = true;
    await deletion?.stop();
    if (pool instanceof LazyPool) await pool.end();
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

  private async loadDriver(): Promise<void> {
    if (this.pool instanceof LazyPool) await loadPg();
  }

  private startDeletion(): void {
    const { deleteExpired: interval, ...listeners } = this.options;
    // Closed meanwhile: start no timer.
    if (interval === false || this.runner.isClosed) return;
    const statement = this.blobStatements['delete-expired'];
    this.deletion ??= new DeletionSchedule(
      (from, options) =>
        deleteExpired(this.runner, statement, this.table, options, from, () => undefined),
      interval,
      listeners,
    );
    this.deletion.start();
  }
}
