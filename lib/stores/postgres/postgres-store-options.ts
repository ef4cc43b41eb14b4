import { checkConnection, secret, url } from '../../core/store/connection-options.js';
import { IdempotencyOptionsError } from '../../core/errors/errors.js';
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
} from '../shared/deletion.js';
import {
  isExecutor,
  kindOf,
  type PostgresExecutor,
} from '../../transactions/shared/connections.js';
import { JOURNAL, type PostgresJournal, type PostgresJournalOptions } from './postgres-journal.js';
import { TABLE, type TableOptions } from './sql/table-name.js';

/** Options of {@link postgresStore}: either an `executor`, or what opening connections requires. */
export type PostgresStoreOptions = ExecutorOptions | OwnPoolOptions;

export interface CommonOptions extends TableOptions, DeletionOptions {
  /**
   * Whether statements are prepared, once per connection, which saves the server a third of its work. Set it to `false`
   * behind a pooler that switches connections between transactions (PgBouncer in transaction mode before version 1.21).
   * `fromKysely` and `fromPrisma` prepare none, and reject `true`.
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
   * `postgres://…` of the server itself, for the connection that listens. Required with an `executor`, or if the server
   * is behind a pooler in transaction mode, which does not support LISTEN. Requires pg.
   * @defaultValue `url` and `connection`, unless `preparedStatements` is `false`
   */
  readonly listenUrl?: string | undefined;

  /**
   * Keeps the history of each record: a row of the journal for each change, written in the statement that makes it, so that
   * there is either both or neither. Takes no statement more, and work of the server.
   * @defaultValue false
   */
  readonly journal?: PostgresJournalOptions | false | undefined;
}

/** Connections that the application opened. The store neither closes them nor changes their settings. */
export interface ExecutorOptions extends CommonOptions {
  /**
   * The connections of the application: `fromPg(pool)`, `fromTypeOrm(dataSource)`, `fromKnex(knex)`, `fromDrizzle(db)`,
   * `fromKysely(db)` or `fromPrisma(prisma)`, each from the entry of its unit of work (`nestjs-idempotency/pg` and so on).
   * A statement takes one of them for as long as it takes, and waits for it no longer than its command may take.
   * - Handlers that wait for each other's connections can leave none for the store: give the store its own pool (pass
   *   `url` instead) unless this one is larger than what handlers hold at once. Transactional operations need no second
   *   one: the record is in the transaction of the handler.
   * - Close them in `onApplicationShutdown`, not in `onModuleDestroy`: Nest calls the latter before the library waits for
   *   running operations, whose outcomes could then not be stored.
   */
  readonly executor: PostgresExecutor;
  readonly url?: undefined;
  readonly connection?: undefined;
}

/** A pool that the store opens with the first command, and ends. Requires pg. */
export interface OwnPoolOptions extends CommonOptions {
  readonly executor?: undefined;

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

type OwnOptions = Omit<OwnPoolOptions, 'executor' | keyof TableOptions | keyof DeletionOptions>;

interface ResolvedOwnOptions extends Defaulted<
  Omit<OwnOptions, 'journal'>,
  'preparedStatements' | 'push'
> {
  readonly journal: PostgresJournal | false;
}

export const OWN: Schema<OwnOptions, ResolvedOwnOptions> = {
  url: url(SCHEMES),
  connection: secret('an object of settings of pg', isSettings),
  preparedStatements: flag(true),
  push: flag(true),
  listenUrl: url(SCHEMES, '`url` and `connection`, unless `preparedStatements` is `false`'),
  journal: JOURNAL,
};

const REMEDIES = new Map([
  ...['host', 'port', 'user', 'password', 'database', 'ssl'].map(
    (name) => [name, 'It is a setting of pg: postgresStore({ connection: { … } }).'] as const,
  ),
  ...['client', 'pool'].map(
    (name) =>
      [name, 'Pass { executor: fromPg(pool) }, with fromPg of nestjs-idempotency/pg.'] as const,
  ),
]);

export function resolveOwnOptions(options: PostgresStoreOptions): ResolvedOwnOptions {
  const others = ['executor', ...Object.keys(TABLE), ...Object.keys(DELETION)];
  const resolved = resolveOptions('postgresStore', OWN, options, { others, remedies: REMEDIES });
  checkExecutor('postgresStore', options);
  return resolved;
}

/** @throws {@link IdempotencyOptionsError} when the connections are no executor's, or not the only ones. */
export function checkExecutor(
  owner: string,
  options: Pick<PostgresStoreOptions, 'executor' | 'url' | 'connection' | 'preparedStatements'>,
): void {
  checkConnection(owner, options, ['url', 'connection'], 'executor');
  const { executor, preparedStatements } = options;
  if (executor === undefined) return;
  if (!isExecutor(executor)) {
    throw new IdempotencyOptionsError(
      `${owner}: executor must be the result of fromPg, fromTypeOrm, fromKnex, fromDrizzle, fromKysely or fromPrisma, each of its own entry: { executor: fromPg(pool) }, with fromPg of nestjs-idempotency/pg.`,
    );
  }
  if (preparedStatements === true && kindOf(executor) !== 'driver') {
    throw new IdempotencyOptionsError(
      `${owner}: ${executor.name} sends statements without names: leave out preparedStatements, or pass another executor, such as fromPg(pool).`,
    );
  }
}

type StoreOptions = Pick<CommonOptions, 'preparedStatements' | 'journal' | keyof DeletionOptions>;

interface ResolvedStoreOptions extends ResolvedDeletionOptions {
  readonly preparedStatements: boolean;
  readonly journal: PostgresJournal | false;
}

const STORE: Schema<StoreOptions, ResolvedStoreOptions> = {
  preparedStatements: OWN.preparedStatements,
  journal: JOURNAL,
  ...DELETION,
};

/** For {@link PostgresIdempotencyStore}, which also has a {@link TableName}. */
export function resolveStoreOptions(options: StoreOptions): ResolvedStoreOptions {
  return resolveOptions('postgresStore', STORE, options, { others: Object.keys(options) });
}
