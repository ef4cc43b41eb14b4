import { LazyMysqlPool, loadMysql2 } from './own-pool.js';
import { MysqlIdempotencyStore } from './mysql-idempotency-store.js';
import { checkMysqlOptions, type MysqlStoreOptions } from './mysql-store-options.js';

/**
 * Stores records in a table of MySQL ≥ 8.0 or MariaDB ≥ 10.6. Create the table by running its migrations: `await
 * store.migrate()`, `npx nestjs-idempotency migrate`, or a migration tool and the output of `npx nestjs-idempotency sql`.
 * @example
 * ```ts
 * IdempotencyModule.forRoot({ store: mysqlStore({ url: 'mysql://localhost/shop' }) })
 * IdempotencyModule.forRoot({ store: mysqlStore({ executor: fromMysql2(pool) }) })
 * ```
 * @throws {@link IdempotencyOptionsError} when an option is invalid. When mysql2 is required but not installed, `open()`
 * throws it.
 */
export function mysqlStore(options: MysqlStoreOptions): MysqlIdempotencyStore {
  checkMysqlOptions(options);
  const { executor, table, deleteExpired, onDeleted, onDeletionError } = options;
  const client = executor ?? new LazyMysqlPool(options);
  const own = client instanceof LazyMysqlPool ? client : undefined;
  return new MysqlIdempotencyStore({
    table,
    deleteExpired,
    onDeleted,
    onDeletionError,
    client,
    closePool: own && (() => own.end()),
    loadDriver: own && (() => loadMysql2()),
  });
}
