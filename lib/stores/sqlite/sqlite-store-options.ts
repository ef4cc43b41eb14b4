import { resolve } from 'node:path';
import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import type { Duration, InMilliseconds } from '../../core/options/duration.js';
import {
  choice,
  duration,
  isText,
  of,
  resolveOptions,
  type Defaulted,
  type Schema,
} from '../../core/options/option-schema.js';

/** Options of {@link sqliteStore}. */
export interface SqliteStoreOptions {
  /**
   * The file of the records, which belongs to them alone, on a local disk. The store creates it, readable by its user only, but
   * not its folder. `-wal` and `-shm` beside it belong to it. A relative path starts at the folder that the process runs in.
   * @defaultValue none: required
   */
  readonly path: string;

  /**
   * When a step counts as stored. `'full'`: once it is on the disk. `'normal'`: a loss of power, or a crash of the machine's
   * kernel, may take the last steps with it, so that their operations run again; a crash of the process takes none.
   * @defaultValue 'full'
   */
  readonly synchronous?: 'full' | 'normal' | undefined;

  /**
   * How often the store deletes expired records, from `open()` to `close()`, which Nest calls. `false` to delete them by
   * {@link SqliteIdempotencyStore.deleteExpired} alone. On by default.
   */
  readonly deleteExpired?: SqliteDeletion | false | undefined;
}

/** How often expired records are deleted. */
export interface SqliteDeletion {
  /**
   * How long from one round to the next, shortened at random by up to half.
   * @defaultValue '1m', from '100ms' to '24h'
   */
  readonly interval?: Duration | undefined;
}

type Given = Partial<SqliteStoreOptions>;

interface ResolvedGiven extends Omit<Defaulted<Given, 'synchronous'>, 'deleteExpired'> {
  readonly deleteExpired: InMilliseconds<Defaulted<SqliteDeletion>> | false;
}

export interface ResolvedSqliteOptions extends ResolvedGiven {
  readonly path: string;
}

export const SQLITE_OPTIONS: Schema<Given, ResolvedGiven> = {
  path: of('a path', isText, { defaultText: 'none: required' }),
  synchronous: choice(['full', 'normal'], { default: 'full' }),
  deleteExpired: {
    fields: { interval: duration({ default: '1m', min: '100ms', max: '24h' }) },
    canBeOff: true,
  },
};

const REMEDIES = new Map([
  ['url', 'Pass { path: "/var/lib/shop/idempotency.db" }.'],
  ['filename', 'It is called path.'],
]);

/** @throws {@link IdempotencyOptionsError} when an option is invalid. */
export function resolveSqliteOptions(options: SqliteStoreOptions): ResolvedSqliteOptions {
  const level = { remedies: REMEDIES };
  const resolved = resolveOptions('sqliteStore', SQLITE_OPTIONS, options, level);
  const { path } = resolved;
  if (path === undefined) {
    throw new IdempotencyOptionsError(
      'sqliteStore: path is required: sqliteStore({ path: "/var/lib/shop/idempotency.db" }).',
    );
  }
  // SQLite reads both as something else than the name of a file.
  if (path === ':memory:' || path.startsWith('file:')) {
    throw new IdempotencyOptionsError(
      'sqliteStore: path must be the path of a file, neither ":memory:" nor a URL. For records that need not survive the process, use memoryStore().',
    );
  }
  return { ...resolved, path: resolve(path) };
}
