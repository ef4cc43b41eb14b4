import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { TableName } from './table-name.js';

export interface SqlStatement {
  readonly text: string;
  /** By which a connection knows it once it is prepared: two texts never share one. */
  readonly name: string;
}

const FILES = [
  'begin',
  'take',
  'renew',
  'clamp',
  'extend',
  'complete',
  'complete-in-transaction',
  'complete-released',
  'restore',
  'confirm',
  'release',
  'notify',
  'look',
  'abandoned',
  'probe',
  'lock',
  'delete-expired',
] as const;

export type SqlStatements = Readonly<Record<(typeof FILES)[number], SqlStatement>>;

// The same folder from lib/stores/postgres and from dist/stores/postgres.
const FOLDER = new URL('../../../sql/', import.meta.url);

/** Reads the shipped statements; a test may put another clock into their text. */
export function loadStatements(
  table: TableName,
  transform: (text: string, file: string) => string = (text) => text,
): SqlStatements {
  const load = (file: string): SqlStatement => {
    return sqlStatement(file, table.inSql(withoutComments(transform(readSql(file), file))));
  };
  return Object.fromEntries(FILES.map((file) => [file, load(file)])) as SqlStatements;
}

/** @param purpose - a word for who looks at the server's prepared statements. */
export function sqlStatement(purpose: string, text: string): SqlStatement {
  const digest = createHash('sha256').update(text).digest('hex').slice(0, 16);
  return { text, name: `idempotency_${purpose}_${digest}` };
}

/** @param file - its name below the folder of the shipped SQL, without the ending. */
export function readSql(file: string): string {
  return readFileSync(new URL(`${file}.sql`, FOLDER), 'utf8');
}

/** They are for who reads the file; the server would parse them each time where nothing is prepared. */
function withoutComments(text: string): string {
  return text.replace(/^[ \t]*--.*\n/gm, '').trim();
}
