import { parseArgs } from 'node:util';
import {
  MIGRATIONS,
  migrationScript,
  migrationsFor,
} from '../stores/postgres/schema/migrations.js';
import { TableName } from '../stores/postgres/sql/table-name.js';
import { UsageError } from './usage.js';

export const MIGRATIONS_USAGE = `Usage: nestjs-idempotency migrations [--blobs] [--schema NAME] [--table NAME] [--from NUMBER]

Prints the SQL that sets up a table in PostgreSQL, of the store or of its blobs, for psql or a migration tool. Run it in
one transaction:

  npx nestjs-idempotency migrations | psql --single-transaction -v ON_ERROR_STOP=1 "$DATABASE_URL"

  --blobs   the table of postgresBlobs, not that of postgresStore
  --schema  the table's schema              (public)
  --table   the table                       (idempotency_records, or idempotency_blobs)
  --from    the first migration to print    (1 of ${MIGRATIONS.length})
`;

/** @param args - after the command. */
export function migrationsOf(args: string[]): string {
  const { values } = parseArgs({
    args,
    options: {
      blobs: { type: 'boolean' },
      schema: { type: 'string' },
      table: { type: 'string' },
      from: { type: 'string', default: '1' },
    },
  });
  const { blobs, schema, table: name } = values;
  const table = new TableName({ schema, table: name }, blobs === true ? 'blobs' : 'records');
  const from = Number(values.from);
  const all = migrationsFor(table);
  if (!all.some(({ id }) => id === from)) {
    throw new UsageError(`--from must be 1 to ${all.length}, not ${values.from}.`);
  }
  return migrationScript(table, from);
}
