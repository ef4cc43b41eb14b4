import { checkConnection, secret, url } from '../../core/store/connection-options.js';
import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import { isSettings } from '../../core/options/option-checks.js';
import { resolveOptions, type Schema } from '../../core/options/option-schema.js';
import {
  isMysqlExecutor,
  type MysqlExecutor,
} from '../../transactions/shared/mysql-connections.js';
import { DELETION, type DeletionOptions } from '../shared/deletion.js';
import { MYSQL_TABLE, type MysqlTableOptions } from './sql/table-name.js';

/** Options of {@link mysqlStore}: either an `executor`, or what opening connections requires. */
export type MysqlStoreOptions = MysqlExecutorOptions | MysqlOwnPoolOptions;

/** Connections that the application opened. The store neither closes them nor changes their settings. */
export interface MysqlExecutorOptions extends MysqlTableOptions, DeletionOptions {
  /**
   * The pool of the application, as `fromMysql2(pool)` of `nestjs-idempotency/mysql2` lends it: also the one that Drizzle,
   * Kysely or another library uses. A statement takes a connection for as long as it takes, and waits for it no longer
   * than its command may take.
   * - Handlers that wait for each other's connections can leave none for the store: give the store its own pool (pass
   *   `url` instead) unless this one is larger than what handlers hold at once.
   * - End it in `onApplicationShutdown`, not in `onModuleDestroy`: Nest calls the latter before the library waits for
   *   running operations, whose outcomes could then not be stored.
   */
  readonly executor: MysqlExecutor;
  readonly url?: undefined;
  readonly connection?: undefined;
}

/** A pool that the store opens with the first command, and ends. Requires mysql2. */
export interface MysqlOwnPoolOptions extends MysqlTableOptions, DeletionOptions {
  readonly executor?: undefined;

  /** `mysql://[user[:password]@]host[:port]/database` @defaultValue none */
  readonly url?: string | undefined;

  /**
   * Settings of mysql2's `createPool`, instead of `url` or in addition to it. They override the store's defaults:
   * - `connectionLimit: 4`: a statement takes about a millisecond, and holds its connection no longer.
   * - `connectTimeout: 2000`, `idleTimeout: 60000`, `enableKeepAlive: true`, `charset: 'utf8mb4_bin'`.
   * Each connection begins with `innodb_lock_wait_timeout = 5` (seconds) and `READ COMMITTED`.
   * @defaultValue none
   */
  readonly connection?: MysqlConnectionOptions | undefined;
}

/** Settings of mysql2's `createPool`: these, and all others that it documents. */
export interface MysqlConnectionOptions {
  readonly host?: string | undefined;
  /** @defaultValue 3306 */
  readonly port?: number | undefined;
  readonly user?: string | undefined;
  readonly password?: string | undefined;
  readonly database?: string | undefined;
  /** Options of `tls.connect`, or the name of a profile. */
  readonly ssl?: string | object | undefined;
  /** @defaultValue 4 */
  readonly connectionLimit?: number | undefined;
  readonly [setting: string]: unknown;
}

type OwnOptions = Pick<MysqlOwnPoolOptions, 'url' | 'connection'>;

export const MYSQL_OWN: Schema<OwnOptions, OwnOptions> = {
  url: url(['mysql', 'mariadb']),
  connection: secret('an object of settings of mysql2', isSettings),
};

const REMEDIES = new Map([
  ...['host', 'port', 'user', 'password', 'database', 'ssl'].map(
    (name) => [name, 'It is a setting of mysql2: mysqlStore({ connection: { … } }).'] as const,
  ),
  ...['client', 'pool'].map(
    (name) =>
      [
        name,
        'Pass { executor: fromMysql2(pool) }, with fromMysql2 of nestjs-idempotency/mysql2.',
      ] as const,
  ),
]);

/** @throws {@link IdempotencyOptionsError} when an option is invalid. */
export function checkMysqlOptions(options: MysqlStoreOptions): void {
  const others = ['executor', ...Object.keys(MYSQL_TABLE), ...Object.keys(DELETION)];
  resolveOptions('mysqlStore', MYSQL_OWN, options, { others, remedies: REMEDIES });
  checkConnection('mysqlStore', options, ['url', 'connection'], 'executor');
  if (options.executor !== undefined && !isMysqlExecutor(options.executor)) {
    throw new IdempotencyOptionsError(
      'mysqlStore: executor must be the result of fromMysql2: { executor: fromMysql2(pool) }, with fromMysql2 of nestjs-idempotency/mysql2.',
    );
  }
}
