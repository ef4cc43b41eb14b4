import { StoreConfigurationError } from '../../core/errors/errors.js';

/** A value of a column. Integers are numbers: none of the store's reaches 2^53. */
export type SqliteValue = null | number | string | Uint8Array;

export type SqliteRow = Readonly<Record<string, SqliteValue>>;

/** What the store uses of `node:sqlite`. Node 20, on which the package runs too, has neither the module nor its types. */
export interface SqliteDatabase {
  exec(sql: string): void;
  prepare(sql: string): SqliteStatement;
  close(): void;
}

export interface SqliteStatement {
  get(...values: readonly SqliteValue[]): SqliteRow | undefined;
  all(...values: readonly SqliteValue[]): readonly SqliteRow[];
  run(...values: readonly SqliteValue[]): { readonly changes: number | bigint };
}

interface NodeSqlite {
  readonly DatabaseSync: new (path: string) => SqliteDatabase;
}

/**
 * Opens the file, and creates it if there is none. The module is loaded now: Node prints a warning when it loads it, also to
 * applications that keep their records elsewhere.
 * @throws {@link StoreConfigurationError} if this Node has no `node:sqlite`.
 */
export function openDatabase(path: string): SqliteDatabase {
  const sqlite = process.getBuiltinModule('node:sqlite') as NodeSqlite | undefined;
  if (sqlite === undefined) {
    throw new StoreConfigurationError(
      `sqliteStore needs node:sqlite, which this Node (${process.version}) does not have. Run Node 22.13 or later, without --no-experimental-sqlite, or use another store, such as redisStore() or postgresStore().`,
    );
  }
  return new sqlite.DatabaseSync(path);
}

/** Of SQLite's result codes, the ones that the store tells apart. The upper bits of an extended code refine it. */
const CODES = {
  busy: [5, 6],
  full: [13],
  tooBig: [18],
  // READONLY, CORRUPT, CANTOPEN, AUTH, NOTADB, ERROR (no such table), PERM
  unusable: [8, 11, 14, 23, 26, 1, 3],
} as const;

export type SqliteFailure = keyof typeof CODES | 'other';

/** What an error of `node:sqlite` says; `undefined` of another error. */
export function sqliteFailureOf(error: unknown): SqliteFailure | undefined {
  // Of another realm, such as a test's, an error is no instance of this one's class.
  if (typeof error !== 'object' || error === null || !('errcode' in error)) return undefined;
  const code = Number(error.errcode) & 0xff;
  const names = Object.keys(CODES) as (keyof typeof CODES)[];
  return names.find((name) => (CODES[name] as readonly number[]).includes(code)) ?? 'other';
}

/** SQLite's own words for the code of its error, which hold nothing of a statement. */
export function wordsOf(error: unknown): string {
  const { errcode, errstr } = error as { readonly errcode?: unknown; readonly errstr?: unknown };
  return typeof errstr === 'string' ? `${errstr} (SQLite ${String(errcode)})` : 'unknown';
}
