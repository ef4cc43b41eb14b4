import { checkConnection, secret, url } from '../../core/store/connection-options.js';
import { isSettings } from '../../core/options/option-checks.js';
import {
  flag,
  resolveOptions,
  type Defaulted,
  type Schema,
} from '../../core/options/option-schema.js';
import {
  DELETION,
  type DeletionOptions,
  type ResolvedDeletionOptions,
} from './cleanup/delete-expired.js';
import type { PostgresPool } from './connection/postgres-client.js';
import { TABLE, type TableOptions } from './sql/table-name.js';

/** Options of {@link postgresStore}: either a `client`, or what opening connections requires. */
export type PostgresStoreOptions = UserPoolOptions | OwnPoolOptions;

export interface CommonOptions extends TableOptions, DeletionOptions {
  /**
   * Whether statements are prepared, once per connection, which saves the server a third of its work. Set it to `false`
   * behind a pooler that switches connections between transactions (PgBouncer in transaction mode before version 1.21).
   * @defaultValue true
   */
  readonly preparedStatements?: boolean | undefined;

  /**
   * Whether the server notifies waiting duplicates (`duplicates: 'wait'`) when the operation ends, by LISTEN and
   * NOTIFY. Takes one more connection per process, opened when the first duplicate waits. Without it, or without an
   * address for it, duplicates poll, at least four times a second.
   * @defaultValue true
   */
  readonly push?: boolean | undefined;

  /**
   * `postgres://…` of the server itself, for the connection that listens. Required if `client` is a pool of the
   * application, or if the server is behind a pooler in transaction mode, which does not support LISTEN. Requires pg.
   * @defaultValue `url` and `connection`, unless `preparedStatements` is `false`
   */
  readonly listenUrl?: string | undefined;
}

/** A pool that the application opened. The store neither ends it nor changes its settings. */
export interface UserPoolOptions extends CommonOptions {
  /**
   * A `Pool` of pg 8. Each statement checks out a connection for as long as it takes.
   * - Handlers that wait for each other's connections can leave none for the store: give the store its own pool (pass
   *   `url` instead of `client`) unless this one is larger than what handlers hold at once.
   * - Set `connectionTimeoutMillis` on it, and listen to its `error` event, without which pg ends the process when an
   *   idle connection fails.
   * - End it in `onApplicationShutdown`, not in `onModuleDestroy`: Nest calls the latter before the library waits for
   *   running operations, whose outcomes could then not be stored.
   */
  readonly client: PostgresPool;
  readonly url?: undefined;
  readonly connection?: undefined;
}

/** A pool that the store opens with the first command, and ends. Requires pg. */
export interface OwnPoolOptions extends CommonOptions {
  readonly client?: undefined;

  /** `postgres://[user[:password]@]host[:port]/database[?sslmode=…]` @defaultValue none */
  readonly url?: string | undefined;

  /**
   * Settings of pg's `Pool`, instead of `url` or in addition to it. They override the store's defaults:
   * - `max: 4` connections: a statement takes about a millisecond, and holds its connection no longer.
   * - `application_name: 'nestjs-idempotency'`, which `pg_stat_activity` shows.
   * - `connectionTimeoutMillis: 2000`, `idleTimeoutMillis: 60000`, `keepAlive: true`, `allowExitOnIdle: true`.
   * - `statement_timeout: 10000` and `lock_timeout: 5000` (ms), so that a statement whose caller has given up also ends
   *   on the server. Omitted with `preparedStatements: false`: PgBouncer rejects them.
   * @defaultValue none
   */
  readonly connection?: PostgresConnectionOptions | undefined;
}

/** Settings of pg's `Pool`: these, and all others that it documents. */
export interface PostgresConnectionOptions {
  readonly host?: string | undefined;
  /** @defaultValue 5432 */
  readonly port?: number | undefined;
  readonly user?: string | undefined;
  readonly password?: string | (() => string | Promise<string>) | undefined;
  readonly database?: string | undefined;
  /** `true`, or options of `tls.connect`. */
  readonly ssl?: boolean | object | undefined;
  /** @defaultValue 4 */
  readonly max?: number | undefined;
  readonly [setting: string]: unknown;
}

const SCHEMES = ['postgres', 'postgresql'];

type OwnOptions = Omit<OwnPoolOptions, 'client' | keyof TableOptions | keyof DeletionOptions>;

type ResolvedOwnOptions = Defaulted<OwnOptions, 'preparedStatements' | 'push'>;

export const OWN: Schema<OwnOptions, ResolvedOwnOptions> = {
  url: url(SCHEMES),
  connection: secret('an object of settings of pg', isSettings),
  preparedStatements: flag(true),
  push: flag(true),
  listenUrl: url(SCHEMES, '`url` and `connection`, unless `preparedStatements` is `false`'),
};

const REMEDIES = new Map([
  ...['host', 'port', 'user', 'password', 'database', 'ssl'].map(
    (name) => [name, 'It is a setting of pg: postgresStore({ connection: { … } }).'] as const,
  ),
  ['pool', 'Did you mean "client"?'],
]);

export function resolveOwnOptions(options: PostgresStoreOptions): ResolvedOwnOptions {
  const others = ['client', ...Object.keys(TABLE), ...Object.keys(DELETION)];
  const resolved = resolveOptions('postgresStore', OWN, options, { others, remedies: REMEDIES });
  checkConnection('postgresStore', options, ['url', 'connection']);
  return resolved;
}

type StoreOptions = Pick<CommonOptions, 'preparedStatements' | keyof DeletionOptions>;

interface ResolvedStoreOptions extends ResolvedDeletionOptions {
  readonly preparedStatements: boolean;
}

const STORE: Schema<StoreOptions, ResolvedStoreOptions> = {
  preparedStatements: OWN.preparedStatements,
  ...DELETION,
};

/** For {@link PostgresIdempotencyStore}, which also has a {@link TableName}. */
export function resolveStoreOptions(options: StoreOptions): ResolvedStoreOptions {
  return resolveOptions('postgresStore', STORE, options, { others: Object.keys(options) });
}
