import {
  AUDIT_MIGRATION_TEXTS,
  BLOB_MIGRATION_TEXTS,
  JOURNAL_MIGRATION_TEXTS,
  MIGRATION_TEXTS,
} from '../sql/sql-texts.generated.js';
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

const AUDIT_MIGRATIONS: readonly Migration[] = [
  { id: 1, name: 'audit', text: AUDIT_MIGRATION_TEXTS['001-audit'] },
];

const JOURNAL_MIGRATIONS: readonly Migration[] = [
  { id: 1, name: 'journal', text: JOURNAL_MIGRATION_TEXTS['001-journal'] },
];

const BY_KIND = {
  records: MIGRATIONS,
  blobs: BLOB_MIGRATIONS,
  audit: AUDIT_MIGRATIONS,
  journal: JOURNAL_MIGRATIONS,
};

export function migrationsFor({ kind }: TableName): readonly Migration[] {
  return BY_KIND[kind];
}

/** The SQL of a migration, which adds itself to the history. */
export function migrationSql(migration: Migration, table: TableName): string {
  return `${statementsOf(migration, table).join('\n\n')}\n`;
}

/** Its statements, with the comments before them. A semicolon at the end of a line of a shipped text ends one. */
function statementsOf({ id, name, text }: Migration, table: TableName): string[] {
  const shipped = text.trim().split(/(?<=;)\n+/);
  const note = `INSERT INTO ${table.quotedHistory} (id, name) VALUES (${id}, '${name}');`;
  return [...shipped.map((statement) => table.inSql(statement)), note];
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

/** How a script is printed. */
export interface ScriptForm {
  /** Whether the table of the history exists. */
  readonly hasHistory: boolean;
  /** Whether statements are separated as drizzle-kit does, which sends them one by one. */
  readonly hasBreakpoints: boolean;
}

/** Migrations for a tool to run in one transaction. */
export function migrationScript(
  table: TableName,
  migrations: readonly Migration[],
  { hasHistory, hasBreakpoints }: ScriptForm,
): string {
  const first = hasHistory ? [] : [historySql(table).trim()];
  if (!hasHistory && table.schema !== 'public') first.unshift(schemaSql(table).trim());
  const all = migrations.flatMap((migration) => {
    const [statement = '', ...others] = statementsOf(migration, table);
    return [`-- Migration ${migration.id}: ${migration.name}\n${statement}`, ...others];
  });
  return `${[...first, ...all].join(hasBreakpoints ? BREAKPOINT : '\n\n')}\n`;
}

const BREAKPOINT = '\n--> statement-breakpoint\n';
