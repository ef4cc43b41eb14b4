import { MIGRATION_TEXTS } from '../sql/sql-texts.generated.js';
import { quote, type TableName } from '../sql/table-name.js';

/** One step of the table's structure. */
export interface Migration {
  /** 1 for the first. */
  readonly id: number;
  readonly name: string;
  /** Below `sql/migrations/`, without the ending. */
  readonly file: keyof typeof MIGRATION_TEXTS;
}

/** In the order in which they are run. Only ever added to: what stands here has been run somewhere. */
export const MIGRATIONS: readonly Migration[] = [
  { id: 1, name: 'records', file: '001-records' },
  { id: 2, name: 'abandoned', file: '002-abandoned' },
];

/** The SQL of a migration, which notes itself in the history. */
export function migrationSql({ id, name, file }: Migration, table: TableName): string {
  const note = `INSERT INTO ${table.quotedHistory} (id, name) VALUES (${id}, '${name}');`;
  return `${table.inSql(MIGRATION_TEXTS[file]).trim()}\n\n${note}\n`;
}

/** Makes the table that says which migrations were run; harmless where it is there. */
export function historySql(table: TableName): string {
  return `CREATE TABLE IF NOT EXISTS ${table.quotedHistory} (
  id integer PRIMARY KEY,
  name text NOT NULL,
  run_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
`;
}

/** Makes the schema; harmless where it is there, except that it asks for the right to make one. */
export function schemaSql({ schema }: TableName): string {
  return `CREATE SCHEMA IF NOT EXISTS ${quote(schema)};\n`;
}

/**
 * The migrations as a script for a tool of one's own, to be run in one transaction.
 *
 * @param from - number of the first migration that is wanted.
 */
export function migrationScript(table: TableName, from: number): string {
  const parts = MIGRATIONS.filter(({ id }) => id >= from).map(
    (migration) =>
      `-- Migration ${migration.id}: ${migration.name}\n${migrationSql(migration, table)}`,
  );
  if (from <= 1) {
    const schema = table.schema === 'public' ? '' : schemaSql(table);
    parts.unshift(`${schema}${historySql(table)}`);
  }
  return parts.join('\n');
}
