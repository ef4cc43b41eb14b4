import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from '@jest/globals';
import { findMariaDb } from '../support/mysql/installations.js';
import { useMysql } from '../support/mysql/use-mysql.js';
import { usePostgres } from '../support/postgres/use-postgres.js';
import { useRedis } from '../support/redis/use-redis.js';
import { hasSqlite, SqliteFolder } from '../support/sqlite/sqlite-file.js';
import { typescriptNodeOptions } from '../support/typescript/node-options.js';
import type { Closing } from './support/closing-process.js';

const redis = useRedis();
const postgres = usePostgres();
const mariadb = findMariaDb() && useMysql();

/** Longer than a connection may stall before the store replaces it: what a closed store opens, it opens by then. */
const LIVES_ON_FOR_MS = 6_000;
/** Of a process that does not end by itself. */
const LIMIT_MS = 40_000;

type Process = Omit<Closing, 'livesOnForMs'> & {
  /** What each store said, before it was closed. */
  readonly says: readonly string[];
  readonly nodeOptions?: readonly string[];
};

const WORKS = 'ok';
const REFUSED = 'idempotency_store_misconfigured';
const AWAY = 'idempotency_store_unavailable';

/** Imports the oldest version of node-redis where the store imports `redis`. */
const redis5 = moduleOf(`import { register } from 'node:module';
  register(${JSON.stringify(
    moduleOf(
      "export const resolve = (name, of, next) => next(name === 'redis' ? 'redis-5' : name, of)",
    ),
  )});`);

function moduleOf(text: string): string {
  return `data:text/javascript;base64,${Buffer.from(text).toString('base64')}`;
}

function onRedis(): Pick<Process, 'options' | 'says'> {
  const { url } = redis;
  const urls = [url, `${url}/99`, url.replace('//', '//nobody:x@'), 'redis://127.0.0.1:1'];
  return { options: urls.map((each) => ({ url: each })), says: [WORKS, REFUSED, REFUSED, AWAY] };
}

function onDatabase(url: string): Pick<Process, 'options' | 'says'> {
  const away = Object.assign(new URL(url), { port: '1' }).href;
  const missing = Object.assign(new URL(url), { pathname: '/missing' }).href;
  const options = [url, missing, away].map((each) => ({ url: each }));
  return { options, says: [WORKS, expect.any(String) as never, expect.any(String) as never] };
}

it.each<[name: string, process: () => Promise<Process> | Process]>([
  ['redisStore', () => ({ entry: 'redis', factory: 'redisStore', ...onRedis() })],
  ['nodeRedisStore', () => ({ entry: 'node-redis', factory: 'nodeRedisStore', ...onRedis() })],
  [
    'nodeRedisStore with redis 5',
    () => ({
      entry: 'node-redis',
      factory: 'nodeRedisStore',
      ...onRedis(),
      nodeOptions: ['--import', redis5],
    }),
  ],
  [
    'glideStore',
    () => ({
      entry: 'valkey-glide',
      factory: 'glideStore',
      options: [{}],
      glidePort: redis.port,
      says: [WORKS],
    }),
  ],
  [
    'postgresStore',
    async () => ({
      entry: 'postgres',
      factory: 'postgresStore',
      ...onDatabase(await postgres.newDatabase()),
    }),
  ],
  ...(mariadb === undefined
    ? []
    : [
        [
          'mysqlStore',
          async () => ({
            entry: 'mysql',
            factory: 'mysqlStore',
            ...onDatabase(await mariadb.newDatabase()),
          }),
        ] as [string, () => Promise<Process>],
      ]),
  [
    'sqliteStore',
    () => ({
      entry: 'sqlite',
      factory: 'sqliteStore',
      options: [{ path: new SqliteFolder().path }, { path: '/nowhere/records.db' }],
      says: [hasSqlite ? WORKS : REFUSED, REFUSED],
    }),
  ],
])(
  'a process that has closed %s ends by itself, also after a start that failed',
  async (_, of) => {
    const { says, nodeOptions = [], ...closing } = await of();
    const settings: Closing = { ...closing, livesOnForMs: LIVES_ON_FOR_MS };
    const script = fileURLToPath(new URL('support/closing-process.ts', import.meta.url));
    // Rejects when the process is killed at the limit.
    const { stdout } = await promisify(execFile)(
      process.execPath,
      [...typescriptNodeOptions, ...nodeOptions, script],
      {
        env: { ...process.env, NODE_OPTIONS: '', TEST_SETTINGS: JSON.stringify(settings) },
        timeout: LIMIT_MS,
      },
    );
    expect(JSON.parse(stdout)).toEqual(says);
  },
  60_000,
);
