import { BLOB_MIGRATION_TEXTS, MIGRATION_TEXTS } from '../sql/sql-texts.generated.js';
import { quote, type TableName } from '../sql/table-name.js';

export interface Migration {
  /** From 1. */
  readonly id: number;
  readonly name: string;
  readonly text: string;
}

/** In order of execution. Append only: every migration here has been run somewhere. */
export const MIGRATIONS: readonly Migration[] = [
  { id: 1, name: 'records', text: MIGRATION_TEXTS['001-records'] },
  { id: 2, name: 'abandoned', text: MIGRATION_TEXTS['002-abandoned'] },
  { id: 3, name: 'note', text: MIGRATION_TEXTS['003-note'] },
];

const BLOB_MIGRATIONS: readonly Migration[] = [
  { id: 1, name: 'blobs', text: BLOB_MIGRATION_TEXTS['001-blobs'] },
];

export function migrationsFor({ kind }: TableName): readonly Migration[] {
  return kind === 'blobs' ? BLOB_MIGRATIONS : MIGRATIONS;
}

/** The SQL of a migration, which adds itself to the history. */
export function migrationSql({ id, name, text }: Migration, table: TableName): string {
  const note = `INSERT INTO ${table.quotedHistory} (id, name) VALUES (${id}, '${name}');`;
  return `${table.inSql(text).trim()}\n\n${note}\n`;
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
  const parts = migrationsFor(table)
    .filter(({ id }) => id >= from)
    .map(
      (migration) =>
        `-- Migration ${migration.id}: ${migration.name}\n${migrationSql(migration, table)}`,
    );
  if (from <= 1) {
    const schema = table.schema === 'public' ? '' : schemaSql(table);
    parts.unshift(`${schema}${historySql(table)}`);
  }
  return parts.join('\n');
}
