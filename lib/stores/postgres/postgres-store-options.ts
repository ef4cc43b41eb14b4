import { IdempotencyOptionsError } from '../../core/util/errors.js';
import { checkNames, within } from '../../core/util/option-checks.js';
import { checkDeletionOptions, type DeletionOptions } from './cleanup/delete-expired.js';
import { isPostgresPool, type PostgresPool } from './connection/postgres-client.js';
import { TableName, type TableOptions } from './sql/table-name.js';

/** Options of {@link postgresStore}: either a `client` of one's own, or what is needed to open connections. */
export type PostgresStoreOptions = UserPoolOptions | OwnPoolOptions;

interface CommonOptions extends TableOptions, DeletionOptions {
  /**
   * Whether statements are prepared, each once per connection, which saves the server a third of its work.
   * Set it to `false` behind a pooler that gives every transaction another connection (PgBouncer in
   * transaction mode, before its version 1.21).
   *
   * @defaultValue true
   */
  readonly preparedStatements?: boolean | undefined;

  /**
   * Whether duplicates that wait (`whenInProgress: 'wait'`) are told of the end they wait for, by LISTEN
   * and NOTIFY. It takes one more connection per process, opened when the first duplicate waits. Without
   * it, or where there is nowhere to listen, they look themselves, four times a second or more.
   *
   * @defaultValue true
   */
  readonly push?: boolean | undefined;

  /**
   * `postgres://…` of the server itself, for the one connection that listens. Needed where `client` is a
   * pool of the application, or the way to the server leads through a pooler in transaction mode: nobody
   * can listen through that one. pg must be installed.
   *
   * @defaultValue `url` and `connection`, unless `preparedStatements` is `false`
   */
  readonly listenUrl?: string | undefined;
}

/** A pool that the application opened: the store neither closes it nor changes its settings. */
export interface UserPoolOptions extends CommonOptions {
  /**
   * A `Pool` of pg 8. Each statement borrows a connection for as long as it takes.
   *
   * Handlers that wait for one another's connections can keep the last one from the store: give it a pool
   * of its own (leave out `client` and pass `url`) unless this one is larger than what handlers hold at
   * once. Set `connectionTimeoutMillis` there, and listen to its `error` event, without which pg ends the
   * process when an idle connection breaks.
   *
   * End it in `onApplicationShutdown`, not in `onModuleDestroy`: Nest calls that one before running
   * operations are waited for, and their outcomes could no longer be stored.
   */
  readonly client: PostgresPool;
  readonly url?: undefined;
  readonly connection?: undefined;
}

/** A pool that the store opens at the first command, and closes. pg must be installed. */
export interface OwnPoolOptions extends CommonOptions {
  readonly client?: undefined;

  /** `postgres://[user[:password]@]host[:port]/database[?sslmode=…]` */
  readonly url?: string | undefined;

  /**
   * Settings of pg's `Pool`, instead of `url` or besides it. They override what the store chooses:
   *
   * - `max: 4` connections: a statement takes a millisecond or so, and none is held any longer.
   * - `application_name: 'nestjs-idempotency'`, as `pg_stat_activity` shows it.
   * - `connectionTimeoutMillis: 2000`, `idleTimeoutMillis: 60000`, `keepAlive: true`,
   *   `allowExitOnIdle: true`.
   * - `statement_timeout: 10000` and `lock_timeout: 5000` (ms), so that what nobody waits for any more ends
   *   at the server, too. Left out with `preparedStatements: false`: PgBouncer refuses them.
   */
  readonly connection?: PostgresConnectionOptions | undefined;
}

/** Settings of pg's `Pool`: these, and all the others that its documentation names. */
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

const OWN_POOL = ['url', 'connection'];
const DELETION = ['deleteExpired', 'onDeleted', 'onDeletionError'];
const ALL = [
  'client',
  ...OWN_POOL,
  'schema',
  'table',
  'preparedStatements',
  'push',
  'listenUrl',
  ...DELETION,
];

const REMEDIES = new Map([
  ...['host', 'port', 'user', 'password', 'database', 'ssl'].map(
    (name) => [name, 'It is one of pg: postgresStore({ connection: { … } }).'] as const,
  ),
  ['pool', 'Did you mean "client"?'],
]);

/** @throws {@link IdempotencyOptionsError} naming the option, what it may be and what it is. */
export function checkPostgresStoreOptions(options: Readonly<Record<string, unknown>>): void {
  within('postgresStore', 'postgresStore', () => {
    check(options);
  });
}

function check(options: Readonly<Record<string, unknown>>): void {
  const given = Object.keys(options).filter((name) => options[name] !== undefined);
  checkNames('postgresStore', options, new Set(ALL), REMEDIES);
  const { client, url, connection, schema, table, listenUrl } = options;
  new TableName({ schema: schema as string | undefined, table: table as string | undefined });
  for (const name of ['preparedStatements', 'push']) {
    const value = options[name] ?? true;
    if (typeof value !== 'boolean') {
      throwPostgresOptionError(`${name} must be true or false, but it is a ${typeof value}.`);
    }
  }
  if (listenUrl !== undefined) checkUrl('listenUrl', listenUrl);
  checkDeletionOptions(options);
  if (client !== undefined) {
    if (!isPostgresPool(client))
      throwPostgresOptionError('client must be a Pool of pg 8; a single Client will not do.');
    const besides = given.find((name) => OWN_POOL.includes(name));
    if (besides !== undefined)
      throwPostgresOptionError(`client has its own connections: leave out ${besides}.`);
    return;
  }
  if (url === undefined && connection === undefined) {
    throwPostgresOptionError('one of client, url, connection is needed.');
  }
  if (url !== undefined) checkUrl('url', url);
  if (connection !== undefined && (typeof connection !== 'object' || connection === null)) {
    throwPostgresOptionError(
      `connection must be an object of pg's settings, but it is a ${typeof connection}.`,
    );
  }
}

function checkUrl(option: string, url: unknown): void {
  if (typeof url === 'string' && /^postgres(ql)?:\/\/./.test(url)) return;
  // The rest may hold a password.
  const scheme = typeof url === 'string' ? /^[a-z+.-]*:/i.exec(url)?.[0] : undefined;
  const found = scheme === undefined ? `a ${typeof url} without a scheme` : JSON.stringify(scheme);
  throwPostgresOptionError(
    `${option} must begin with postgres:// or postgresql://; it is ${found}.`,
  );
}

function throwPostgresOptionError(message: string): never {
  throw new IdempotencyOptionsError(`postgresStore: ${message}`);
}
