import { hasCode, isIdempotencyError, StoreConfigurationError } from '../../core/errors.js';
import type { StoreWarning } from '../../core/idempotency-store.js';
import { CommandBudget } from './command-budget.js';
import { MIGRATIONS } from './migrations.js';
import { sqlStatement } from './sql-statements.js';
import type { StatementRunner } from './statement-runner.js';
import type { TableName } from './table-name.js';

/** The start does not wait longer than this for a server that is not there. */
const START_CHECK_TIMEOUT_MS = 2_000;

const OLDEST_VERSION = 13;

interface ServerColumns {
  readonly version: string;
  readonly is_replica: string;
  readonly fsync: string;
  readonly synchronous_commit: string;
  readonly has_history: string;
}

const SERVER = sqlStatement(
  'server',
  `SELECT
  current_setting('server_version_num')::integer / 10000 AS version,
  pg_is_in_recovery() AS is_replica,
  current_setting('fsync') AS fsync,
  current_setting('synchronous_commit') AS synchronous_commit,
  to_regclass($1) IS NOT NULL AS has_history`,
);

/** Asks the server about its set-up, and whether the migrations were run. */
export async function checkServer(
  runner: StatementRunner,
  table: TableName,
): Promise<readonly StoreWarning[]> {
  const budget = new CommandBudget(START_CHECK_TIMEOUT_MS);
  try {
    const found = await runner.runForOnlyRow<ServerColumns>(SERVER, [table.quotedHistory], budget);
    if (Number(found.version) < OLDEST_VERSION) {
      throw new StoreConfigurationError(
        `PostgreSQL ${found.version} is too old: the store needs ${OLDEST_VERSION} or newer.`,
      );
    }
    if (found.has_history === 't') {
      const text = `SELECT array_to_string(array_agg(id), ' ') AS ids FROM ${table.quotedHistory}`;
      const history = sqlStatement('history', text);
      const { ids } = await runner.runForOnlyRow<{ ids: string | null }>(history, [], budget);
      refuseMissing(new Set((ids ?? '').split(' ').map(Number)), table);
    } else {
      refuseMissing(new Set(), table);
    }
    return judge(found);
  } catch (error) {
    if (!isIdempotencyError(error) || hasCode(error, 'idempotency_store_misconfigured'))
      throw error;
    const message = `PostgreSQL cannot be reached. ${error.message}`;
    return [{ code: 'postgres_unreachable', message }];
  }
}

function refuseMissing(run: ReadonlySet<number>, table: TableName): void {
  const missing = MIGRATIONS.filter(({ id }) => !run.has(id));
  if (missing.length === 0) return;
  const [first] = missing;
  const names = missing.map(({ id, name }) => `${id} (${name})`).join(', ');
  const from = first !== undefined && first.id > 1 ? ` --from ${first.id}` : '';
  throw new StoreConfigurationError(
    `Migrations are missing for ${table.quoted}: ${names}. Run them: await store.migrate(), or ${table.migrationsCommand}${from} | psql --single-transaction`,
  );
}

function judge(found: ServerColumns): StoreWarning[] {
  const warnings: StoreWarning[] = [];
  if (found.is_replica === 't') {
    warnings.push({
      code: 'postgres_is_replica',
      message: 'The connection leads to a replica, which refuses to write. Connect to the primary.',
    });
  }
  if (found.fsync === 'off') {
    warnings.push({
      code: 'postgres_not_durable',
      message:
        'fsync is off: a crash of the machine damages the database, and operations would run again. Set it to on.',
    });
  }
  if (found.synchronous_commit === 'off') {
    warnings.push({
      code: 'postgres_commits_late',
      message:
        'synchronous_commit is off: a crash of the server loses the outcomes of the last moments, and the operations would run again. Set it to on, at least for this user.',
    });
  }
  return warnings;
}
