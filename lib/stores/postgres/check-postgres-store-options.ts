import { IdempotencyOptionsError } from '../../core/util/errors.js';
import { checkNames, within } from '../../core/util/option-checks.js';
import { checkDeletionOptions } from './deletion-options.js';
import { isPostgresPool } from './postgres-client.js';
import { TableName } from './table-name.js';

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
      fail(`${name} must be true or false, but it is a ${typeof value}.`);
    }
  }
  if (listenUrl !== undefined) checkUrl('listenUrl', listenUrl);
  checkDeletionOptions(options);
  if (client !== undefined) {
    if (!isPostgresPool(client))
      fail('client must be a Pool of pg 8; a single Client will not do.');
    const besides = given.find((name) => OWN_POOL.includes(name));
    if (besides !== undefined) fail(`client has its own connections: leave out ${besides}.`);
    return;
  }
  if (url === undefined && connection === undefined) {
    fail('one of client, url, connection is needed.');
  }
  if (url !== undefined) checkUrl('url', url);
  if (connection !== undefined && (typeof connection !== 'object' || connection === null)) {
    fail(`connection must be an object of pg's settings, but it is a ${typeof connection}.`);
  }
}

function checkUrl(option: string, url: unknown): void {
  if (typeof url === 'string' && /^postgres(ql)?:\/\/./.test(url)) return;
  // The rest may hold a password.
  const scheme = typeof url === 'string' ? /^[a-z+.-]*:/i.exec(url)?.[0] : undefined;
  const found = scheme === undefined ? `a ${typeof url} without a scheme` : JSON.stringify(scheme);
  fail(`${option} must begin with postgres:// or postgresql://; it is ${found}.`);
}

function fail(message: string): never {
  throw new IdempotencyOptionsError(`postgresStore: ${message}`);
}
