import { MIGRATION_TEXTS } from '../sql/sql-texts.generated.js';
import type { MysqlTable } from '../sql/table-name.js';

export interface MysqlMigration {
  /** From 1. */
  readonly id: number;
  readonly name: string;
  readonly text: string;
}

/** In order of execution. Append only: every migration here has been run somewhere. */
export const MYSQL_MIGRATIONS: readonly MysqlMigration[] = [
  { id: 1, name: 'records', text: MIGRATION_TEXTS['001-records'] },
];

/**
 * The statements of a migration, with the comments before them; the last one adds it to the history. MySQL commits each
 * statement that changes a table: each can be run again.
 */
export function statementsOf({ id, name, text }: MysqlMigration, table: MysqlTable): string[] {
  const shipped = text.trim().split(/(?<=;)\n+/);
  const note = `INSERT IGNORE INTO ${table.quotedHistory} (id, name) VALUES (${id}, '${name}');`;
  return [...shipped.map((statement) => table.inSql(statement)), note];
}

export function historySql(table: MysqlTable): string {
  return `CREATE TABLE IF NOT EXISTS ${table.quotedHistory} (
  id integer NOT NULL PRIMARY KEY,
  name varchar(64) NOT NULL,
  run_at timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP
) ENGINE = InnoDB;`;
}

/** Migrations for a tool to run. */
export function mysqlMigrationScript(
  table: MysqlTable,
  migrations: readonly MysqlMigration[],
  {
    hasHistory,
    hasBreakpoints,
  }: { readonly hasHistory: boolean; readonly hasBreakpoints: boolean },
): string {
  const first = hasHistory ? [] : [historySql(table)];
  const all = migrations.flatMap((migration) => {
    const [statement = '', ...others] = statementsOf(migration, table);
    return [`-- Migration ${migration.id}: ${migration.name}\n${statement}`, ...others];
  });
  return `${[...first, ...all].join(hasBreakpoints ? BREAKPOINT : '\n\n')}\n`;
}

const BREAKPOINT = '\n--> statement-breakpoint\n';
