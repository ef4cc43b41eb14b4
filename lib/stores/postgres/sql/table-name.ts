import { createHash } from 'node:crypto';
import { IdempotencyOptionsError } from '../../../core/util/errors.js';

/** Where the records are. */
export interface TableOptions {
  /**
   * The schema of the table.
   *
   * @defaultValue `'public'`
   */
  readonly schema?: string | undefined;

  /**
   * The table of the records; beside it stands `{table}_migrations`, which says how far it has been set up.
   * Applications that share a schema and must not share records need different ones. At most 50 bytes.
   *
   * @defaultValue `'idempotency_records'`
   */
  readonly table?: string | undefined;
}

/** PostgreSQL cuts longer names off. */
const LONGEST_NAME_BYTES = 63;
const MIGRATIONS_SUFFIX = '_migrations';
/** Leaves room for the names that PostgreSQL makes from it, of the index for one. */
const LONGEST_TABLE_BYTES = 50;

/** The name by which the shipped SQL calls the table, so that each file is SQL as it stands. */
const NAME_IN_SQL = /\bidempotency_records\b/g;

/** A table of records, and what is named after it. */
export class TableName {
  readonly schema: string;
  readonly table: string;

  /** @throws {@link IdempotencyOptionsError} when PostgreSQL could not have such a name. */
  constructor({ schema = 'public', table = 'idempotency_records' }: TableOptions = {}) {
    this.schema = checked('schema', schema, LONGEST_NAME_BYTES);
    this.table = checked('table', table, LONGEST_TABLE_BYTES);
  }

  /** The table's name with its schema's, quoted. */
  get quoted(): string {
    return `${quote(this.schema)}.${quote(this.table)}`;
  }

  /** The same of the table in which the migrations stand that were run. */
  get quotedHistory(): string {
    return `${quote(this.schema)}.${quote(this.table + MIGRATIONS_SUFFIX)}`;
  }

  /** On which the ends of records are told. */
  get channel(): string {
    return `idempotency_${this.digest('hex').slice(0, 32)}`;
  }

  /** Number of the advisory lock for `purpose`, as text. */
  advisoryLock(purpose: 'migrations' | 'deletion'): string {
    return createHash('sha256')
      .update(`${this.digest('hex')} ${purpose}`)
      .digest()
      .readBigInt64BE()
      .toString();
  }

  /** A shipped text of SQL, for this table. */
  inSql(text: string): string {
    return text.replace(NAME_IN_SQL, () => this.quoted);
  }

  /** How to run the migrations by hand. */
  get migrationsCommand(): string {
    return `npx nestjs-idempotency migrations --schema ${shellWord(this.schema)} --table ${shellWord(this.table)}`;
  }

  private digest(encoding: 'hex'): string {
    return createHash('sha256').update(this.quoted).digest(encoding);
  }
}

export function quote(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

function shellWord(word: string): string {
  return /^\w+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

function checked(option: string, name: unknown, longestBytes: number): string {
  if (
    typeof name !== 'string' ||
    name === '' ||
    name.includes('\0') ||
    Buffer.byteLength(name) > longestBytes
  ) {
    throw new IdempotencyOptionsError(
      `postgresStore: ${option} must be 1 to ${longestBytes} bytes of text, not ${JSON.stringify(name)}.`,
    );
  }
  return name;
}
