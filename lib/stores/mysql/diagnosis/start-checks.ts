import type { StoreWarning } from '../../../core/store/idempotency-store.js';
import {
  hasCode,
  isIdempotencyError,
  StoreConfigurationError,
} from '../../../core/errors/errors.js';
import { MysqlDeadline } from '../connection/deadline.js';
import { isMysqlReadOnly } from '../connection/error-classification.js';
import type { MysqlRow, Send } from '../connection/on-connection.js';
import { MYSQL_MIGRATIONS } from '../schema/migrations.js';
import { readHistory } from '../schema/run-migrations.js';
import type { MysqlTable } from '../sql/table-name.js';
import { readOn, textOf, type MysqlRunner } from '../statements/statement-runner.js';

/** The longest time that the start waits for an unreachable server. */
const START_CHECK_TIMEOUT_MS = 2_000;

const OLDEST = { MySQL: [8, 0], MariaDB: [10, 6] } as const;

const SETTINGS = `SELECT ? AS nonce, DATABASE() AS name, VERSION() AS version, @@autocommit AS autocommit, @@read_only AS read_only,
  @@innodb_flush_log_at_trx_commit AS flushed, @@sql_mode AS modes, @@innodb_read_only AS innodb_read_only,
  @@sql_select_limit AS most_rows, @@sql_safe_updates AS safe`;

/** Checks the server's configuration, that the migrations were run, and the user's rights. */
export async function checkMysqlServer(
  runner: MysqlRunner,
  table: MysqlTable,
  deletes: boolean,
): Promise<readonly StoreWarning[]> {
  const deadline = new MysqlDeadline(START_CHECK_TIMEOUT_MS);
  try {
    return await runner.run(deadline, async (send) => {
      const [settings = {}] = await readOn(send, SETTINGS, []);
      throwUnusable(settings);
      const known = (await readHistory(send, table)) ?? new Set();
      throwMissing(known, table);
      await throwOtherEngine(send, table);
      const warnings = evaluate(settings);
      const rejectsWrites = !(await takesWrites(send, probes(table, deletes)));
      return rejectsWrites || isReadOnly(settings) ? [READ_ONLY, ...warnings] : warnings;
    });
  } catch (error) {
    if (!isIdempotencyError(error) || hasCode(error, 'idempotency_store_misconfigured'))
      throw error;
    return [
      {
        code: 'mysql_unreachable',
        message: `Cannot reach MySQL. ${error.message}`,
        isOutage: true,
      },
    ];
  }
}

/**
 * Plans what the store runs: the server checks the rights, and changes nothing.
 * @returns `false` where it may only read: no variable says so of a session on MySQL and MariaDB alike.
 */
async function takesWrites(send: Send, statements: readonly string[]): Promise<boolean> {
  try {
    for (const statement of statements) await send(statement, [], true);
    return true;
  } catch (error) {
    if (isMysqlReadOnly(error)) return false;
    throw error;
  }
}

function probes({ quoted, table }: MysqlTable, deletes: boolean): string[] {
  const locks = `\`${table}_locks\``;
  return [
    `INSERT INTO ${quoted} SELECT * FROM ${quoted} WHERE 1 = 0`,
    `UPDATE ${quoted} SET attempt = attempt WHERE 1 = 0`,
    ...(deletes ? [`DELETE FROM ${quoted} WHERE 1 = 0`] : []),
    `INSERT INTO ${locks} SELECT * FROM ${locks} WHERE 1 = 0`,
    `DELETE FROM ${locks} WHERE 1 = 0`,
  ];
}

/** More than the rows of any statement of a store. */
const ROWS_AT_ONCE = 1_000_000;

function throwUnusable({ name, version, autocommit, most_rows: most, safe }: MysqlRow): void {
  const text = textOf(version) ?? '';
  const system = text.includes('MariaDB') ? 'MariaDB' : 'MySQL';
  // MariaDB may put 5.5.5- in front, for clients of old.
  const [major = 0, minor = 0] = text
    .replace(/^5\.5\.5-/, '')
    .split('.')
    .map(Number);
  const [oldestMajor, oldestMinor] = OLDEST[system];
  if (major < oldestMajor || (major === oldestMajor && minor < oldestMinor)) {
    throw new StoreConfigurationError(
      `${system} ${text} is too old: the store requires ${oldestMajor}.${oldestMinor} or later.`,
    );
  }
  if (name === null) {
    throw new StoreConfigurationError(
      'The connection has no database: name it in "url" or "connection", or in the pool of the executor.',
    );
  }
  if (Number(autocommit) !== 1) {
    throw new StoreConfigurationError(
      'autocommit is off: what the store writes would be lost. Switch it on for the connections of the store.',
    );
  }
  if (Number(most) < ROWS_AT_ONCE) {
    throw new StoreConfigurationError(
      `sql_select_limit is ${String(most)}: a list of records, and the erasure of a customer, would end there without a word. Leave it at its default for the connections of the store.`,
    );
  }
  if (Number(safe) === 1) {
    throw new StoreConfigurationError(
      'sql_safe_updates is on: the server rejects statements of the store. Switch it off for the connections of the store.',
    );
  }
}

function throwMissing(run: ReadonlySet<number>, table: MysqlTable): void {
  const missing = MYSQL_MIGRATIONS.filter(({ id }) => !run.has(id));
  if (missing.length === 0) return;
  const names = missing.map(({ id, name }) => `${id} (${name})`).join(', ');
  throw new StoreConfigurationError(
    `Migrations are missing for ${table.quoted}: ${names}. Run them: await store.migrate(), or npx nestjs-idempotency migrate ${table.commandOptions}`,
  );
}

/** An engine without transactions keeps an outcome whose operation was rolled back, and one of memory loses records. */
async function throwOtherEngine(send: Send, { table }: MysqlTable): Promise<void> {
  const others = `SELECT ? AS nonce, GROUP_CONCAT(table_name, ' (', engine, ')' ORDER BY table_name SEPARATOR ', ') AS names
    FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name IN ('${table}', '${table}_locks') AND engine <> 'InnoDB'`;
  const [row] = await readOn(send, others, []);
  const names = textOf(row?.names);
  if (names === undefined) return;
  throw new StoreConfigurationError(
    `Not on InnoDB: ${names}. A transaction would keep an outcome that it rolls back. Run, for each: ALTER TABLE … ENGINE = InnoDB`,
  );
}

const READ_ONLY: StoreWarning = {
  code: 'mysql_is_read_only',
  message:
    'The server or the session is read-only, as that of a replica, and rejects writes. Connect to the primary. If this is the primary: SET GLOBAL read_only = OFF.',
  isOutage: true,
};

function isReadOnly({ read_only: server, innodb_read_only: engine }: MysqlRow): boolean {
  return [server, engine].some((value) => /^(?:1|ON)$/i.test(String(value)));
}

function evaluate(settings: MysqlRow): StoreWarning[] {
  const warnings: StoreWarning[] = [];
  if (Number(settings.flushed) !== 1) {
    warnings.push({
      code: 'mysql_commits_late',
      message:
        'innodb_flush_log_at_trx_commit is not 1. A crash of the machine loses the latest outcomes, and their operations run again. Set it to 1.',
    });
  }
  if (!/STRICT_(?:TRANS|ALL)_TABLES/.test(textOf(settings.modes) ?? '')) {
    warnings.push({
      code: 'mysql_not_strict',
      message:
        'sql_mode has no STRICT_TRANS_TABLES: the server shortens what does not fit instead of rejecting it. Add it, at least for the connections of the store.',
    });
  }
  return warnings;
}
