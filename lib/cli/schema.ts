import { parseArgs } from 'node:util';
import { asError, isIdempotencyError } from '../core/errors/errors.js';
import { LazyPool, loadPg } from '../stores/postgres/own-pool.js';
import { migrationScript, migrationsFor } from '../stores/postgres/schema/migrations.js';
import {
  readSchema,
  runMigrations,
  type SchemaState,
} from '../stores/postgres/schema/run-migrations.js';
import { TableName } from '../stores/postgres/sql/table-name.js';
import { isPostgres, ServerAddress } from './servers/server-address.js';
import { ServerFailure, UsageError } from './servers/failures.js';

type Values = ReturnType<typeof valuesOf>;

/**
 * Prints which migrations were run.
 * @param args - after the command.
 * @returns the exit code: 1 while one is missing.
 */
export async function runStatus(args: string[], print: (text: string) => void): Promise<number> {
  const { table, read, shown } = await opened(valuesOf(args));
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
  const { table, migrate, shown } = await opened(valuesOf(args));
  const done = await migrate();
  const names = migrationsFor(table)
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
    const { table, read } = await opened(values);
    const { missing, hasHistory } = await read();
    return missing.length === 0
      ? `-- No migration of ${commented(table.quoted)} is missing.\n`
      : migrationScript(table, missing, { ...form, hasHistory });
  }
  if (values.url !== undefined)
    throw new UsageError('--url is for --missing: without it, sql asks no server.');
  const table = tableOf(values);
  const all = migrationsFor(table);
  const first = Number(from ?? 1);
  if (!all.some(({ id }) => id === first)) {
    throw new UsageError(`--from must be 1 to ${all.length}, not ${from ?? ''}.`);
  }
  const chosen = all.filter(({ id }) => id >= first);
  return migrationScript(table, chosen, { ...form, hasHistory: first > 1 });
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
    },
  });
  if (positionals.length > 0) throw new UsageError('Pass the URL as --url, or in DATABASE_URL.');
  const { from, missing, 'statement-breakpoints': breakpoints } = values;
  if (!isSql && [from, missing, breakpoints].some((value) => value !== undefined)) {
    throw new UsageError('--from, --missing and --statement-breakpoints are options of sql.');
  }
  return values;
}

function tableOf({ schema, table, ...values }: Values): TableName {
  const [kind = 'records', ...others] = OTHER_KINDS.filter((each) => values[each] === true);
  if (others.length > 0) throw new UsageError('Pass one of --blobs, --audit and --journal.');
  return new TableName({ schema, table }, kind);
}

const OTHER_KINDS = ['blobs', 'audit', 'journal'] as const;

interface OpenedTable {
  readonly table: TableName;
  /** The address of the server. */
  readonly shown: string;
  readonly read: () => Promise<SchemaState>;
  readonly migrate: () => Promise<readonly number[]>;
}

/** @throws {@link UsageError} without a usable URL, and {@link IdempotencyOptionsError} without pg. */
async function opened(values: Values): Promise<OpenedTable> {
  const table = tableOf(values);
  const { url, address } = serverOf(values);
  await loadPg();
  const using =
    <Result>(use: (pool: LazyPool, table: TableName) => Promise<Result>) =>
    async () => {
      const pool = new LazyPool({ url }, false);
      try {
        return await use(pool, table);
      } catch (error) {
        if (!isIdempotencyError(error)) throw error;
        throw new ServerFailure(`${address.redact(error.message)} [${error.code}]`);
      } finally {
        await pool.end();
      }
    };
  return { table, shown: address.shown, read: using(readSchema), migrate: using(runMigrations) };
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
    const address = new ServerAddress(url, 5432);
    if (isPostgres(url)) return { url: url.trim(), address };
  } catch (error) {
    throw new UsageError(`${source}: ${asError(error).message}`);
  }
  // Does not repeat it: it may contain a password.
  throw new UsageError(`${source} must begin with postgres:// or postgresql://.`);
}

/** A name in a comment, which ends with its line. */
function commented(name: string): string {
  return name.replaceAll(/[\n\r]/g, ' ');
}
