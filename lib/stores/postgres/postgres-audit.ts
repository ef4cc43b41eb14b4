import { randomUUID } from 'node:crypto';
import type { AuditEntry } from '../../core/operator/operator-options.js';
import { resolveOptions } from '../../core/options/option-schema.js';
import { nodeClock } from '../../core/util/clock.js';
import { within } from '../../core/util/time.js';
import { Deadline } from './connection/deadline.js';
import { LazyPool } from './own-pool.js';
import {
  checkExecutor,
  OWN,
  type ExecutorOptions,
  type OwnPoolOptions,
} from './postgres-store-options.js';
import { runMigrations } from './schema/run-migrations.js';
import { auditStatement } from './sql/sql-statements.js';
import { AUDIT_TABLE, TableName } from './sql/table-name.js';
import { StatementRunner } from './statements/statement-runner.js';

/** Where {@link postgresAudit} keeps entries. */
export interface AuditTableOptions {
  /** The schema of the table. @defaultValue 'public' */
  readonly schema?: string | undefined;
  /** The table. Its history is in `{table}_migrations`. At most 50 bytes. @defaultValue 'idempotency_audit' */
  readonly table?: string | undefined;
}

/** Options of {@link postgresAudit}: either an `executor`, or what opening connections requires. */
export type PostgresAuditOptions = AuditTableOptions &
  (
    | Pick<ExecutorOptions, 'executor' | 'url' | 'connection'>
    | Pick<OwnPoolOptions, 'executor' | 'url' | 'connection'>
  );

/** Adds an entry to the audit. Created by {@link postgresAudit}. */
export interface PostgresAudit {
  /** Rejects unless the entry was committed within 5 seconds. */
  (entry: AuditEntry): Promise<void>;
  /**
   * Creates the table, or migrates it to this version. Any number of processes may run it at once.
   * @returns the numbers of the migrations that it ran.
   */
  migrate(): Promise<readonly number[]>;
  /** Closes the connections that it has opened. Without it, an idle one does not keep the process alive. */
  close(): Promise<void>;
}

const TIMEOUT_MS = 5_000;

/**
 * The module option `operator.audit`, in a table of PostgreSQL: a row before each act and one after it. Create the table by
 * `await audit.migrate()`, or `npx nestjs-idempotency migrate --audit`. The user needs INSERT alone.
 * @example
 * ```ts
 * IdempotencyModule.forRoot({ operator: { audit: postgresAudit({ url: 'postgres://localhost/audit' }) } })
 * ```
 * @throws {@link IdempotencyOptionsError} when an option is invalid.
 */
export function postgresAudit(options: PostgresAuditOptions): PostgresAudit {
  const schemaOfOptions = { url: OWN.url, connection: OWN.connection };
  const others = ['executor', ...Object.keys(AUDIT_TABLE)];
  resolveOptions<object, object>('postgresAudit', schemaOfOptions, options, { others });
  checkExecutor('postgresAudit', options);
  const { executor, schema, table: name } = options;
  const table = new TableName({ schema, table: name }, 'audit');
  const opened = new LazyPool(options, false);
  const pool = executor ?? opened;
  const runner = new StatementRunner(pool, table, false, ignore, ignore);
  const statement = auditStatement(table);
  const append = async (entry: AuditEntry) => {
    const values = [randomUUID(), JSON.stringify(entry)];
    await within(TIMEOUT_MS, runner.run(statement, values, new Deadline(TIMEOUT_MS)), nodeClock);
  };
  return Object.assign(append, {
    migrate: () => runMigrations(pool, table),
    close: () => opened.end(),
  });
}

function ignore(): void {
  // The statement fails, and its caller hears of it.
}
