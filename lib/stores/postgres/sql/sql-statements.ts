import { createHash } from 'node:crypto';
import {
  AUDIT_STATEMENT_TEXTS,
  BLOB_STATEMENT_TEXTS,
  JOURNAL_STATEMENT_TEXTS,
  STATEMENT_TEXTS,
} from './sql-texts.generated.js';
import type { TableName } from './table-name.js';

export interface SqlStatement {
  readonly text: string;
  /** Name of the prepared statement; unique per text. */
  readonly name: string;
}

type Statements<Texts> = Readonly<Record<keyof Texts, SqlStatement>>;

export type SqlStatements = Statements<typeof STATEMENT_TEXTS>;

export type BlobStatements = Statements<typeof BLOB_STATEMENT_TEXTS>;

export type JournalStatements = Statements<typeof JOURNAL_STATEMENT_TEXTS>;

/** A journal, and where it is. */
export interface JournalTable {
  readonly table: TableName;
  readonly options: {
    readonly service: string;
    readonly version: string;
    /** Milliseconds. */
    readonly retention: number;
  };
}

/** The lines that add entries to the journal. */
const OF_JOURNAL = /^.* -- journal\n/gm;

/** The shipped statements. A test may replace the clock in their text. @param journal - without it, they write none. */
export function loadStatements(
  table: TableName,
  transform: (text: string, name: string) => string = (text) => text,
  journal?: JournalTable,
): SqlStatements {
  return statementsOf(STATEMENT_TEXTS, (name, text) => {
    const own = journal === undefined ? text.replace(OF_JOURNAL, '') : inJournal(text, journal);
    return sqlStatement(name, table.inSql(transform(own, name).trim()));
  });
}

export function loadJournalStatements(journal: JournalTable): JournalStatements {
  return statementsOf(JOURNAL_STATEMENT_TEXTS, (name, text) =>
    sqlStatement(`journal_${name}`, inJournal(text.trim(), journal)),
  );
}

/** Values in the text, since they are those of the process. */
function inJournal(text: string, { table, options }: JournalTable): string {
  const { service, version, retention } = options;
  const values = { service, version, retention: `${retention} ms` };
  return Object.entries(values).reduce(
    (filled, [name, value]) => filled.replaceAll(`':${name}'`, () => literal(value)),
    table.inSql(text),
  );
}

/** With a backslash in the form that means the same whatever `standard_conforming_strings` is. */
function literal(text: string): string {
  const quoted = `'${text.replaceAll("'", "''").replaceAll('\\', '\\\\')}'`;
  return text.includes('\\') ? `E${quoted}` : quoted;
}

export function loadBlobStatements(table: TableName): BlobStatements {
  return statementsOf(BLOB_STATEMENT_TEXTS, (name, text) =>
    sqlStatement(`blobs_${name}`, table.inSql(text.trim())),
  );
}

/** Adds an entry to the audit. */
export function auditStatement(table: TableName): SqlStatement {
  return sqlStatement('audit_append', table.inSql(AUDIT_STATEMENT_TEXTS.append.trim()));
}

function statementsOf<Texts extends Readonly<Record<string, string>>>(
  texts: Texts,
  load: (name: string, text: string) => SqlStatement,
): Statements<Texts> {
  const statements = Object.entries(texts).map(([name, text]) => [name, load(name, text)]);
  return Object.fromEntries(statements) as Statements<Texts>;
}

/** Pgpool-II sends reads to replicas, unless a comment like this begins them. */
export const ON_PRIMARY = '/*NO LOAD BALANCE*/ ';

/** @param purpose - a word that identifies it among the server's prepared statements. */
export function sqlStatement(purpose: string, text: string): SqlStatement {
  const digest = createHash('sha256').update(text).digest('hex').slice(0, 16);
  return { text, name: `idempotency_${purpose}_${digest}` };
}
