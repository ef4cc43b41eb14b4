import { createHash } from 'node:crypto';
import {
  isText,
  of,
  resolveOptions,
  type Defaulted,
  type Schema,
} from '../../../core/options/option-schema.js';

/** The table of the records. */
export interface MysqlTableOptions {
  /**
   * The table of the records, in the database of the connection. The running transactions are in `{table}_locks`, its
   * history in `{table}_migrations`. Applications that share a database but not their records need different tables. At
   * most 50 characters: ASCII letters, digits, `_` and `$`.
   * @defaultValue 'idempotency_records'
   */
  readonly table?: string | undefined;
}

const LONGEST = 50;

export const MYSQL_TABLE: Schema<MysqlTableOptions, Defaulted<MysqlTableOptions>> = {
  table: of('1 to 50 of the characters A-Z, a-z, 0-9, _ and $', isName, {
    default: 'idempotency_records',
  }),
};

/** The table of the records, and the names derived from it. */
export class MysqlTable {
  readonly table: string;

  /** @throws {@link IdempotencyOptionsError} when the name is not allowed. */
  constructor(options: MysqlTableOptions = {}) {
    const level = { others: Object.keys(options) };
    this.table = resolveOptions('mysqlStore', MYSQL_TABLE, options, level).table;
  }

  /** Quoted. */
  get quoted(): string {
    return `\`${this.table}\``;
  }

  get quotedHistory(): string {
    return `\`${this.table}_migrations\``;
  }

  /** A shipped SQL text, for this table. */
  inSql(text: string): string {
    return text.replaceAll(/\bidempotency_records(_locks)?\b/g, (_, suffix = '') => {
      return `\`${this.table}${suffix}\``;
    });
  }

  /**
   * SQL for the name of a lock of the server, within the database: MySQL allows 64 characters, whatever the names'
   * lengths.
   */
  lockName(purpose: 'migrations' | 'deletion'): string {
    const digest = createHash('sha256').update(`${this.table} ${purpose}`).digest('hex');
    return `CONCAT('idempotency_', LEFT(SHA2(CONCAT(DATABASE(), '${digest}'), 256), 40))`;
  }

  /** The options of a command that name it. */
  get commandOptions(): string {
    return `--table ${this.table}`;
  }
}

function isName(value: unknown): boolean {
  return isText(value) && value.length <= LONGEST && /^[A-Za-z0-9_$]+$/.test(value);
}
