import { parseArgs } from 'node:util';
import { asError, isIdempotencyError } from '../core/errors/errors.js';
import { LazyPool, loadPg } from '../stores/postgres/own-pool.js';
import { MYSQL_MIGRATIONS, mysqlMigrationScript } from '../stores/mysql/schema/migrations.js';
import { readMysqlSchema, runMysqlMigrations } from '../stores/mysql/schema/run-migrations.js';
import { LazyMysqlPool, loadMysql2 } from '../stores/mysql/own-pool.js';
import { MysqlTable } from '../stores/mysql/sql/table-name.js';
import {
  migrationScript,
  migrationsFor,
  type Migration,
  type ScriptForm,
} from '../stores/postgres/schema/migrations.js';
import {
  readSchema,
  runMigrations,
  type SchemaState,
} from '../stores/postgres/schema/run-migrations.js';
import { TableName } from '../stores/postgres/sql/table-name.js';
import { isMysql, isPostgres, ServerAddress } from './servers/server-address.js';
import { ServerFailure, UsageError } from './servers/failures.js';

type Values = ReturnType<typeof valuesOf>;

/**
 * Prints which migrations were run.
 * @param args - after the command.
 * @returns the exit code: 1 while one is missing.
 */
export async function runStatus(args: string[], print: (text: string) => void): Promise<number> {
  const { table, read, shown } = opened(valuesOf(args));
  const { run, missing, later } = await read();
  print(`${table.quoted} on ${shown}\n`);
  for (const { id, name } of run) print(`run      ${id} ${name}\n`);
  for (const { id, name } of missing) print(`missing  ${id} ${name}\n`);
  for (const id of later) print(`later    ${id}, of a later version, with which this one works\n`);
  if (missing.length === 0) return 0;
  print(`\nThe schema is behind. Run npx nestjs-idempotency migrate ${table.commandOptions}\n`);
  return 1;
}

/** Runs the missing migrations. @param args - after the command. */
export async function runMigrate(args: string[], print: (text: string) => void): Promise<void> {
  const { table, migrate, shown } = opened(valuesOf(args));
  const done = await migrate();
  const names = table.migrations
    .filter(({ id }) => done.includes(id))
    .map(({ id, name }) => `${id} (${name})`);
  const what = names.length === 0 ? 'no migration was missing' : `ran ${names.join(', ')}`;
  print(`${table.quoted} on ${shown}: ${what}.\n`);
}

/** @param args - after the command. @returns the SQL to print. */
export async function sqlOf(args: string[]): Promise<string> {
  const values = valuesOf(args, true);
  const { from, missing: isMissingOnly } = values;
  const form = { hasBreakpoints: values['statement-breakpoints'] === true };
  if (isMissingOnly === true) {
    if (from !== undefined) throw new UsageError('Pass either --from or --missing.');
    const { table, read } = opened(values);
    const { missing, hasHistory } = await read();
    return missing.length === 0
      ? `-- No migration of ${commented(table.quoted)} is missing.\n`
      : table.script(missing, { ...form, hasHistory });
  }
  if (values.url !== undefined)
    throw new UsageError('--url is for --missing: without it, sql asks no server.');
  const table = tableOf(values, values.mysql === true);
  const all = table.migrations;
  const first = Number(from ?? 1);
  if (!all.some(({ id }) => id === first)) {
    throw new UsageError(`--from must be 1 to ${all.length}, not ${from ?? ''}.`);
  }
  const chosen = all.filter(({ id }) => id >= first);
  return table.script(chosen, { ...form, hasHistory: first > 1 });
}

function valuesOf(args: string[], isSql = false) {
  const { values, positionals } = parseArgs({
    args,
    // Otherwise the error repeats them, and one may be a URL with a password.
    allowPositionals: true,
    options: {
      url: { type: 'string' },
      blobs: { type: 'boolean' },
      audit: { type: 'boolean' },
      journal: { type: 'boolean' },
      schema: { type: 'string' },
      table: { type: 'string' },
      from: { type: 'string' },
      missing: { type: 'boolean' },
      'statement-breakpoints': { type: 'boolean' },
      mysql: { type: 'boolean' },
    },
  });
  if (positionals.length > 0) throw new UsageError('Pass the URL as --url, or in DATABASE_URL.');
  const { from, missing, mysql, 'statement-breakpoints': breakpoints } = values;
  if (!isSql && [from, missing, breakpoints, mysql].some((value) => value !== undefined)) {
    throw new UsageError(
      '--from, --missing, --mysql and --statement-breakpoints are options of sql.',
    );
  }
  return values;
}

/** A table of PostgreSQL or of MySQL, and its migrations. */
interface MigratedTable {
  readonly quoted: string;
  readonly commandOptions: string;
  readonly migrations: readonly Migration[];
  /** The SQL of some of them. */
  script(migrations: readonly Migration[], form: ScriptForm): string;
  /** Opens connections for one use, and ends them. */
  open(url: string): Promise<OpenedPool>;
}

interface OpenedPool {
  readonly read: () => Promise<SchemaState>;
  readonly migrate: () => Promise<readonly number[]>;
  readonly end: () => Promise<void>;
}

function tableOf(values: Values, isOfMysql: boolean): MigratedTable {
  return isOfMysql ? mysqlTableOf(values) : postgresTableOf(values);
}

function mysqlTableOf({ blobs, audit, journal, schema, table: name }: Values): MigratedTable {
  if ([blobs, audit, journal, schema].some((value) => value !== undefined)) {
    throw new UsageError(
      '--blobs, --audit, --journal and --schema are of PostgreSQL: the database of MySQL is that of its URL.',
    );
  }
  const table = new MysqlTable({ table: name });
  return {
    quoted: table.quoted,
    commandOptions: table.commandOptions,
    migrations: MYSQL_MIGRATIONS,
    script: (migrations, form) => mysqlMigrationScript(table, migrations, form),
    open: async (url) => {
      await loadMysql2();
      const pool = new LazyMysqlPool({ url });
      return {
        read: () => readMysqlSchema(pool, table),
        migrate: () => runMysqlMigrations(pool, table),
        end: () => pool.end(),
      };
    },
  };
}

function postgresTableOf(values: Values): MigratedTable {
  const table = postgresNameOf(values);
  return {
    quoted: table.quoted,
    commandOptions: table.commandOptions,
    migrations: migrationsFor(table),
    script: (migrations, form) => migrationScript(table, migrations, form),
    open: async (url) => {
      await loadPg();
      const pool = new LazyPool({ url }, false);
      return {
        read: () => readSchema(pool, table),
        migrate: () => runMigrations(pool, table),
        end: () => pool.end(),
      };
    },
  };
}

function postgresNameOf({ schema, table, ...values }: Values): TableName {
  const [kind = 'records', ...others] = OTHER_KINDS.filter((each) => values[each] === true);
  if (others.length > 0) throw new UsageError('Pass one of --blobs, --audit and --journal.');
  return new TableName({ schema, table }, kind);
}

const OTHER_KINDS = ['blobs', 'audit', 'journal'] as const;

interface OpenedTable {
  readonly table: MigratedTable;
  /** The address of the server. */
  readonly shown: string;
  readonly read: () => Promise<SchemaState>;
  readonly migrate: () => Promise<readonly number[]>;
}

/** Its functions throw {@link IdempotencyOptionsError} without the driver. @throws {@link UsageError} without a usable URL. */
function opened(values: Values): OpenedTable {
  const { url, address } = serverOf(values);
  const table = tableOf(values, isMysql(url));
  const using =
    <Result>(use: (pool: OpenedPool) => Promise<Result>) =>
    async () => {
      const pool = await table.open(url);
      try {
        return await use(pool);
      } catch (error) {
        if (!isIdempotencyError(error)) throw error;
        throw new ServerFailure(`${address.redact(error.message)} [${error.code}]`);
      } finally {
        await pool.end();
      }
    };
  return {
    table,
    shown: address.shown,
    read: using(({ read }) => read()),
    migrate: using(({ migrate }) => migrate()),
  };
}

function serverOf({ url: given }: Values) {
  const [url, source] =
    given === undefined ? [process.env.DATABASE_URL, 'DATABASE_URL'] : [given, '--url'];
  if (url === undefined || url === '') {
    throw new UsageError(
      'Pass --url postgres://user:password@host:port/database, or set DATABASE_URL.',
    );
  }
  try {
    const address = new ServerAddress(url, isMysql(url) ? 3306 : 5432);
    if (isPostgres(url) || isMysql(url)) return { url: url.trim(), address };
  } catch (error) {
    throw new UsageError(`${source}: ${asError(error).message}`);
  }
  // Does not repeat it: it may contain a password.
  throw new UsageError(
    `${source} must begin with postgres://, postgresql://, mysql:// or mariadb://.`,
  );
}

/** A name in a comment, which ends with its line. */
function commented(name: string): string {
  return name.replaceAll(/[\n\r]/g, ' ');
}
