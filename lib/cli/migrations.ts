import { parseArgs } from 'node:util';
import { MIGRATIONS, migrationScript } from '../stores/postgres/schema/migrations.js';
import { TableName } from '../stores/postgres/sql/table-name.js';
import { UsageError } from './usage.js';

export const MIGRATIONS_USAGE = `Usage: nestjs-idempotency migrations [--schema NAME] [--table NAME] [--from NUMBER]

Prints the SQL that sets up the table of the PostgreSQL store, for psql or a migration tool. Run it in one
transaction:

  npx nestjs-idempotency migrations | psql --single-transaction -v ON_ERROR_STOP=1 "$DATABASE_URL"

  --schema  the table's schema              (public)
  --table   the table                       (idempotency_records)
  --from    the first migration to print    (1 of ${MIGRATIONS.length})
`;

/** @param args - after the command. */
export function migrationsOf(args: string[]): string {
  const { values } = parseArgs({
    args,
    options: {
      schema: { type: 'string' },
      table: { type: 'string' },
      from: { type: 'string', default: '1' },
    },
  });
  const from = Number(values.from);
  if (!MIGRATIONS.some(({ id }) => id === from)) {
    throw new UsageError(`--from must be 1 to ${MIGRATIONS.length}, not ${values.from}.`);
  }
  return migrationScript(new TableName({ schema: values.schema, table: values.table }), from);
}
