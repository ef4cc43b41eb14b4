import type { StoreWarning } from '../../../core/store/idempotency-store.js';
import {
  hasCode,
  isIdempotencyError,
  StoreConfigurationError,
} from '../../../core/errors/errors.js';
import type { PostgresExecutor } from '../../../transactions/shared/connections.js';
import { Deadline } from '../connection/deadline.js';
import { migrationsFor } from '../schema/migrations.js';
import { ON_PRIMARY, sqlStatement, type SqlStatement } from '../sql/sql-statements.js';
import type { TableName } from '../sql/table-name.js';
import { checkRights } from './start-rights.js';
import type { StatementRunner } from '../statements/statement-runner.js';

/** The longest time that the start waits for an unreachable server. */
const START_CHECK_TIMEOUT_MS = 2_000;

const OLDEST_VERSION = 13;

interface ServerSettings {
  readonly isReplica: boolean;
  readonly fsync: string | undefined;
  readonly synchronousCommit: string | undefined;
  readonly statementTimeout: string | undefined;
}

const SERVER = sqlStatement(
  'server',
  `${ON_PRIMARY}SELECT concat_ws(
  ' ', $2::text,
  current_setting('server_version_num')::integer / 10000, pg_is_in_recovery(),
  current_setting('fsync'), current_setting('synchronous_commit'), current_setting('statement_timeout'),
  to_regclass($1) IS NOT NULL
) AS reply`,
);

/**
 * Checks the server's configuration, that the migrations were run, and the user's rights.
 * @param deletes - whether the store deletes expired records.
 * @param journal - the table of the journal, if it is on.
 */
export async function checkServer(
  runner: StatementRunner,
  table: TableName,
  deletes: boolean,
  journal?: TableName,
): Promise<readonly StoreWarning[]> {
  const deadline = new Deadline(START_CHECK_TIMEOUT_MS);
  try {
    const found = await runner.run(SERVER, [table.quotedHistory], deadline);
    const [version, isReplica, fsync, synchronousCommit, statementTimeout, hasHistory] = found;
    if (Number(version) < OLDEST_VERSION) {
      throw new StoreConfigurationError(
        `PostgreSQL ${version} is too old: the store requires ${OLDEST_VERSION} or later.`,
      );
    }
    const ids = hasHistory === 't' ? await runner.run(historyOf(table), [], deadline) : [];
    throwMissing(new Set(ids.map(Number)), table);
    await checkRights(runner, table, deletes, deadline);
    if (journal !== undefined) {
      const tables = [journal.quotedHistory, journal.quoted];
      const [exists, hasTable] = await runner.run(EXISTS, tables, deadline);
      const run = exists === 't' ? await runner.run(historyOf(journal), [], deadline) : [];
      throwMissing(new Set(run.map(Number)), journal);
      // No step of the start writes an entry, and no begin would be executed.
      if (hasTable !== 't') throwDropped(journal);
      await checkRights(runner, journal, deletes, deadline);
    }
    const settings = { isReplica: isReplica === 't', fsync, synchronousCommit, statementTimeout };
    const warnings = evaluate(settings, runner.executor);
    for (const each of journal === undefined ? [table] : [table, journal]) {
      const [isUnlogged] = await runner.run(UNLOGGED, [each.quoted], deadline);
      if (isUnlogged === 't') warnings.push(unlogged(each));
    }
    return warnings;
  } catch (error) {
    if (!isIdempotencyError(error) || hasCode(error, 'idempotency_store_misconfigured'))
      throw error;
    return [
      hasCode(error, 'idempotency_store_reply_mismatched')
        ? { code: 'postgres_not_checked', message: error.message }
        : {
            code: 'postgres_unreachable',
            message: `Cannot reach PostgreSQL. ${error.message}`,
            isOutage: true,
          },
    ];
  }
}

const EXISTS = sqlStatement(
  'exists',
  `${ON_PRIMARY}SELECT concat_ws(' ', $3::text, to_regclass($1) IS NOT NULL, to_regclass($2) IS NOT NULL) AS reply`,
);

const UNLOGGED = sqlStatement(
  'unlogged',
  `${ON_PRIMARY}SELECT concat_ws(' ', $2::text, EXISTS (
  SELECT 1 FROM pg_class WHERE oid = to_regclass($1) AND relpersistence = 'u'
)) AS reply`,
);

function unlogged({ quoted }: TableName): StoreWarning {
  return {
    code: 'postgres_table_unlogged',
    message: `${quoted} is UNLOGGED: a crash of the server empties it, and operations run again. ALTER TABLE ${quoted} SET LOGGED.`,
  };
}

function historyOf({ quotedHistory }: TableName): SqlStatement {
  const text = `${ON_PRIMARY}SELECT concat_ws(' ', $1::text, string_agg(id::text, ' ')) AS reply FROM ${quotedHistory}`;
  return sqlStatement('history', text);
}

function throwMissing(run: ReadonlySet<number>, table: TableName): void {
  const missing = migrationsFor(table).filter(({ id }) => !run.has(id));
  if (missing.length === 0) return;
  const names = missing.map(({ id, name }) => `${id} (${name})`).join(', ');
  throw new StoreConfigurationError(
    `Migrations are missing for ${table.quoted}: ${names}. Run them: await store.migrate(), or npx nestjs-idempotency migrate ${table.commandOptions}`,
  );
}

function throwDropped({ quoted, quotedHistory, commandOptions }: TableName): never {
  throw new StoreConfigurationError(
    `The table ${quoted} is not there, though its migrations were run: it was dropped or renamed. Restore it, or drop ${quotedHistory}, too, and run the migrations: await store.migrate(), or npx nestjs-idempotency migrate ${commandOptions}`,
  );
}

function evaluate(
  { isReplica, fsync, synchronousCommit, statementTimeout }: ServerSettings,
  executor: PostgresExecutor | undefined,
): StoreWarning[] {
  const warnings: StoreWarning[] = [];
  if (isReplica) {
    warnings.push({
      code: 'postgres_is_replica',
      message: 'The connection leads to a replica, which rejects writes. Connect to the primary.',
      isOutage: true,
    });
  }
  if (fsync === 'off') {
    warnings.push({
      code: 'postgres_not_durable',
      message:
        'fsync is off. A crash of the machine corrupts the database, and operations run again. Set it to on.',
    });
  }
  if (synchronousCommit === 'off') {
    warnings.push({
      code: 'postgres_commits_late',
      message:
        'synchronous_commit is off. A crash of the server loses the latest outcomes, and their operations run again. Set it to on, at least for this user.',
    });
  }
  if (executor !== undefined && executor.kind !== 'driver' && statementTimeout === '0') {
    warnings.push({
      code: 'postgres_statements_unlimited',
      message: `statement_timeout is 0, and ${executor.name} cannot close a connection: a statement that waits for a lock or a dead network keeps one of the application's. Set it for the user: ALTER ROLE … SET statement_timeout = '10s', or in the options of the pool. Or pass another executor, such as fromPg(pool).`,
    });
  }
  return warnings;
}
