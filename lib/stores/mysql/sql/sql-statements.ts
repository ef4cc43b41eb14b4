import { STATEMENT_TEXTS } from './sql-texts.generated.js';
import type { MysqlTable } from './table-name.js';

/** The shipped statements, for one table. */
export type MysqlStatements = Readonly<Record<keyof typeof STATEMENT_TEXTS, string>>;

/** Microseconds since 1970 of the server's clock, which stands still during a statement. */
export const NOW_US = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";

/** The shipped statements. A test may replace the clock in their text. */
export function loadMysqlStatements(
  table: MysqlTable,
  transform: (text: string, name: string) => string = (text) => text,
): MysqlStatements {
  const texts = Object.entries(STATEMENT_TEXTS).map(([name, text]) => [
    name,
    table.inSql(transform(text, name).trim()),
  ]);
  return Object.fromEntries(texts) as MysqlStatements;
}
