import { createHash } from 'node:crypto';
import {
  isText,
  of,
  resolveOptions,
  type Defaulted,
  type Schema,
} from '../../../core/options/option-schema.js';

/** The table of the records. */
export interface TableOptions {
  /** The schema of the table. @defaultValue 'public' */
  readonly schema?: string | undefined;

  /**
   * The table of the records. Its history is in `{table}_migrations`. Applications that share a schema but not their
   * records need different tables. At most 50 bytes.
   * @defaultValue 'idempotency_records'
   */
  readonly table?: string | undefined;
}

export const TABLE: Schema<TableOptions, Defaulted<TableOptions>> = {
  // PostgreSQL truncates longer names.
  schema: name('public', 63),
  // Leaves room for derived names, such as that of the index.
  table: name('idempotency_records', 50),
};

/** Of what a table is. Its default is also its name in the shipped SQL, so that each file is valid SQL. */
const KINDS = {
  records: { owner: 'postgresStore', table: TABLE, flag: '' },
  blobs: {
    owner: 'postgresBlobs',
    table: { ...TABLE, table: name('idempotency_blobs', 50) },
    flag: '--blobs ',
  },
  audit: {
    owner: 'postgresAudit',
    table: { ...TABLE, table: name('idempotency_audit', 50) },
    flag: '--audit ',
  },
  journal: {
    owner: 'postgresStore',
    table: { ...TABLE, table: name('idempotency_journal', 50) },
    flag: '--journal ',
  },
} as const;

export const BLOB_TABLE: Schema<TableOptions, Defaulted<TableOptions>> = KINDS.blobs.table;

export const AUDIT_TABLE: Schema<TableOptions, Defaulted<TableOptions>> = KINDS.audit.table;

export const JOURNAL_TABLE = KINDS.journal.table;

const MIGRATIONS_SUFFIX = '_migrations';

/** A table of records, blobs, the audit or the journal, and the names derived from it. */
export class TableName {
  readonly schema: string;
  readonly table: string;

  /** @throws {@link IdempotencyOptionsError} when PostgreSQL does not allow the name. */
  constructor(
    options: TableOptions = {},
    readonly kind: keyof typeof KINDS = 'records',
  ) {
    const level = { others: Object.keys(options) };
    const { owner, table: names } = KINDS[kind];
    const { schema, table } = resolveOptions(owner, names, options, level);
    this.schema = schema;
    this.table = table;
  }

  /** The qualified name of the table, quoted. */
  get quoted(): string {
    return `${this.quotedSchema}.${quote(this.table)}`;
  }

  get quotedSchema(): string {
    return quote(this.schema);
  }

  get quotedHistory(): string {
    return `${this.quotedSchema}.${quote(this.table + MIGRATIONS_SUFFIX)}`;
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
    return text.replaceAll(new RegExp(`\\bidempotency_${this.kind}\\b`, 'g'), () => this.quoted);
  }

  /** The options of a command that name it. */
  get commandOptions(): string {
    const { flag } = KINDS[this.kind];
    return `${flag}--schema ${shellWord(this.schema)} --table ${shellWord(this.table)}`;
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

function name(byDefault: string, longestBytes: number) {
  return of(`a string of 1 to ${longestBytes} bytes`, (value) => isName(value, longestBytes), {
    default: byDefault,
  });
}

function isName(value: unknown, longestBytes: number): boolean {
  return isText(value) && !value.includes('\0') && Buffer.byteLength(value) <= longestBytes;
}
