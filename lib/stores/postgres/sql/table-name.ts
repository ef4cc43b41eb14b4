import { createHash } from 'node:crypto';
import { IdempotencyOptionsError } from '../../../core/util/errors.js';

/** The table of the records. */
export interface TableOptions {
  /** The schema of the table. @defaultValue `'public'` */
  readonly schema?: string | undefined;

  /**
   * The table of the records. Its history is in `{table}_migrations`. Applications that share a schema but not their
   * records need different tables. At most 50 bytes.
   * @defaultValue `'idempotency_records'`
   */
  readonly table?: string | undefined;
}

/** PostgreSQL truncates longer names. */
const LONGEST_NAME_BYTES = 63;
const MIGRATIONS_SUFFIX = '_migrations';
/** Leaves room for derived names, such as that of the index. */
const LONGEST_TABLE_BYTES = 50;

/** The name of the table in the shipped SQL, so that each file is valid SQL. */
const NAME_IN_SQL = /\bidempotency_records\b/g;

/** A table of records, and the names derived from it. */
export class TableName {
  readonly schema: string;
  readonly table: string;

  /** @throws {@link IdempotencyOptionsError} when PostgreSQL does not allow the name. */
  constructor({ schema = 'public', table = 'idempotency_records' }: TableOptions = {}) {
    this.schema = checked('schema', schema, LONGEST_NAME_BYTES);
    this.table = checked('table', table, LONGEST_TABLE_BYTES);
  }

  /** The qualified name of the table, quoted. */
  get quoted(): string {
    return `${quote(this.schema)}.${quote(this.table)}`;
  }

  get quotedHistory(): string {
    return `${quote(this.schema)}.${quote(this.table + MIGRATIONS_SUFFIX)}`;
  }

  /** The channel that announces the ends of records. */
  get channel(): string {
    return `idempotency_${this.digest('hex').slice(0, 32)}`;
  }

  /** The number of the advisory lock for `purpose`, as a string. */
  advisoryLock(purpose: 'migrations' | 'deletion'): string {
    return createHash('sha256')
      .update(`${this.digest('hex')} ${purpose}`)
      .digest()
      .readBigInt64BE()
      .toString();
  }

  /** A shipped SQL text, for this table. */
  inSql(text: string): string {
    return text.replace(NAME_IN_SQL, () => this.quoted);
  }

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
      `postgresStore: ${option} must be a string of 1 to ${longestBytes} bytes, not ${JSON.stringify(name)}.`,
    );
  }
  return name;
}
