import { MIGRATION_TEXTS } from '../sql/sql-texts.generated.js';
import { quote, type TableName } from '../sql/table-name.js';

export interface Migration {
  /** From 1. */
  readonly id: number;
  readonly name: string;
  /** Path below `sql/migrations/`, without the extension. */
  readonly file: keyof typeof MIGRATION_TEXTS;
}

/** In order of execution. Append only: every migration here has been run somewhere. */
export const MIGRATIONS: readonly Migration[] = [
  { id: 1, name: 'records', file: '001-records' },
  { id: 2, name: 'abandoned', file: '002-abandoned' },
  { id: 3, name: 'note', file: '003-note' },
];

/** The SQL of a migration, which adds itself to the history. */
export function migrationSql({ id, name, file }: Migration, table: TableName): string {
  const note = `INSERT INTO ${table.quotedHistory} (id, name) VALUES (${id}, '${name}');`;
  return `${table.inSql(MIGRATION_TEXTS[file]).trim()}\n\n${note}\n`;
}

export function historySql(table: TableName): string {
  return `CREATE TABLE IF NOT EXISTS ${table.quotedHistory} (
  id integer PRIMARY KEY,
  name text NOT NULL,
  run_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
`;
}

/** Creates the schema if it does not exist. Requires the privilege in any case. */
export function schemaSql({ schema }: TableName): string {
  return `CREATE SCHEMA IF NOT EXISTS ${quote(schema)};\n`;
}

/** The migrations from number `from` on, for a migration tool to run in one transaction. */
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
