import { createHash } from 'node:crypto';
import { STATEMENT_TEXTS } from './sql-texts.generated.js';
import type { TableName } from './table-name.js';

export interface SqlStatement {
  readonly text: string;
  /** Name of the prepared statement; unique per text. */
  readonly name: string;
}

export type SqlStatements = Readonly<Record<keyof typeof STATEMENT_TEXTS, SqlStatement>>;

/** The shipped statements. A test may replace the clock in their text. */
export function loadStatements(
  table: TableName,
  transform: (text: string, name: string) => string = (text) => text,
): SqlStatements {
  const load = (name: string, text: string): SqlStatement => {
    return sqlStatement(name, table.inSql(transform(text, name).trim()));
  };
  const statements = Object.entries(STATEMENT_TEXTS).map(([name, text]) => [
    name,
    load(name, text),
  ]);
  return Object.fromEntries(statements) as SqlStatements;
}

/** Pgpool-II sends reads to replicas, unless a comment like this begins them. */
export const ON_PRIMARY = '/*NO LOAD BALANCE*/ ';

/** @param purpose - a word that identifies it among the server's prepared statements. */
export function sqlStatement(purpose: string, text: string): SqlStatement {
  const digest = createHash('sha256').update(text).digest('hex').slice(0, 16);
  return { text, name: `idempotency_${purpose}_${digest}` };
}
