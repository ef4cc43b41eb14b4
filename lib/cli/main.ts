#!/usr/bin/env node
import { parseArgs } from 'node:util';
import { isIdempotencyError } from '../core/util/errors.js';
import { MIGRATIONS, migrationScript } from '../stores/postgres/schema/migrations.js';
import { TableName } from '../stores/postgres/sql/table-name.js';

const USAGE = `Usage: nestjs-idempotency migrations [--schema NAME] [--table NAME] [--from NUMBER]

Prints the SQL that sets up the table of the PostgreSQL store, for psql or a migration tool. Run it in one
transaction:

  npx nestjs-idempotency migrations | psql --single-transaction -v ON_ERROR_STOP=1 "$DATABASE_URL"

  --schema  the table's schema              (public)
  --table   the table                       (idempotency_records)
  --from    the first migration to print    (1 of ${MIGRATIONS.length})
`;

class UsageError extends Error {}

try {
  process.stdout.write(outputOf(process.argv.slice(2)));
} catch (error) {
  process.stderr.write(`${messageOf(error)}\n\n${USAGE}`);
  process.exitCode = 2;
}

function outputOf(args: string[]): string {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      schema: { type: 'string' },
      table: { type: 'string' },
      from: { type: 'string', default: '1' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) return USAGE;
  const [command, ...more] = positionals;
  if (command !== 'migrations' || more.length > 0) {
    throw new UsageError(`Unknown command "${positionals.join(' ')}".`);
  }
  const from = Number(values.from);
  if (!MIGRATIONS.some(({ id }) => id === from)) {
    throw new UsageError(`--from must be 1 to ${MIGRATIONS.length}, not ${values.from}.`);
  }
  return migrationScript(new TableName({ schema: values.schema, table: values.table }), from);
}

/** One line for an error in the arguments, the stack for a bug. */
function messageOf(error: unknown): string {
  const isUsage = error instanceof UsageError || isIdempotencyError(error) || isParseError(error);
  return isUsage ? error.message : String(error instanceof Error ? error.stack : error);
}

function isParseError(error: unknown): error is Error {
  return (
    error instanceof Error && 'code' in error && String(error.code).startsWith('ERR_PARSE_ARGS')
  );
}
