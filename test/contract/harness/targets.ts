import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll } from '@jest/globals';
import { findMariaDb } from '../../support/mysql/installations.js';
import { newDatabase } from '../../support/mysql/new-database.js';
import type { NestPackages } from '../../support/packages/versions.js';
import {
  postgresServers,
  type PostgresUnderTest,
} from '../../support/postgres/postgres-servers.js';
import { sharedServer } from '../../support/servers/shared/shared-server.js';
import { START_HOOK_MS } from '../../support/servers/start-server.js';
import { isTestAll } from '../../support/jest/test-all.js';
import { hasSqlite } from '../../support/sqlite/sqlite-file.js';
import { sharedDatabase } from '../../support/postgres/use-postgres.js';
import { buildApp } from './build-app.js';
import { AppProcess, ForeignServer, type RequestPath, type Server } from './server.js';

export interface Target {
  readonly name: string;
  readonly server: Server;
  /** Whether the suite may expect a second process on the same store. */
  readonly isShared: boolean;
}

/** Processes on one store, except those that are only peers of others. */
interface Combination {
  readonly targets: readonly Target[];
  readonly processes: readonly AppProcess[];
  /** Starts the server of the store, or names a file in `folder`. @returns its address for the processes. */
  readonly startStore: (folder: string) => Promise<NodeJS.ProcessEnv>;
}

/** The server that CONTRACT_URL names, or else the suite's application, each store under one platform. */
export function useTargets(): Target[] {
  const { CONTRACT_URL: url, CONTRACT_PEER_URL: peerUrl } = process.env;
  if (url === undefined) {
    const path = isTestAll ? 'streams' : 'fast';
    const onPostgres = postgresServers.map((version) => onPostgresServer(version, path));
    const onSqlite = hasSqlite ? [onSqliteFile(path)] : [];
    const onMysql = isTestAll && findMariaDb() !== undefined ? [onMariaDb(path)] : [];
    const besideOthers = isTestAll ? [inMemory('beside'), onRedis('beside')] : [];
    return startCombinations([
      ...[inMemory(path), onRedis(path), ...onPostgres, ...onMysql, ...onSqlite],
      ...besideOthers,
    ]);
  }
  return [{ name: url, server: new ForeignServer(url, peerUrl), isShared: peerUrl !== undefined }];
}

/** The suite's application on another version of Nest, where the stores make no difference. */
export function startOnNest(packages: NestPackages): Target[] {
  const paths = ['fast', 'streams'] as const;
  const combinations = paths.flatMap((path) => [inMemory(path), onRedis(path)]);
  return startCombinations(combinations, packages);
}

/** The suite's application on Redis by another client than ioredis. */
export function startByClients(): Target[] {
  return startCombinations([onRedis('fast', 'node-redis'), onRedis('streams', 'valkey-glide')]);
}

function startCombinations(
  combinations: readonly Combination[],
  packages?: NestPackages,
): Target[] {
  let folder: string | undefined;
  beforeAll(async () => {
    const made = await mkdtemp(join(tmpdir(), 'idempotency-contract-'));
    folder = made;
    const building = buildApp(made, packages);
    const starting = combinations.map(async ({ processes, startStore }) => {
      const environment = await startStore(made);
      const program = await building;
      await Promise.all(processes.map((app) => app.start(program, environment)));
    });
    await Promise.all(starting);
  }, START_HOOK_MS);
  afterAll(async () => {
    await Promise.all(combinations.flatMap(({ processes }) => processes.map((app) => app.stop())));
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  });

  return combinations.flatMap(({ targets }) => targets);
}

function inMemory(path: RequestPath): Combination {
  const server = platforms('memory', path)[round(0, path)];
  return {
    targets: [{ name: nameOf(server, 'memory', path), server, isShared: false }],
    processes: [server],
    startStore: () => Promise.resolve({}),
  };
}

function onRedis(
  path: RequestPath,
  client: 'redis' | 'node-redis' | 'valkey-glide' = 'redis',
): Combination {
  const processes = peers(client, path);
  const server = processes[round(1, path)];
  return {
    targets: [{ name: nameOf(server, client, path), server, isShared: true }],
    processes,
    startStore: async () => {
      const { url } = await sharedServer('redis');
      return { REDIS_URL: url };
    },
  };
}

function onPostgresServer(version: PostgresUnderTest, path: RequestPath): Combination {
  const processes = peers('postgres', path);
  const server = processes[round(0, path)];
  return {
    targets: [{ name: nameOf(server, version.name, path), server, isShared: true }],
    processes,
    startStore: async () => ({ DATABASE_URL: await sharedDatabase(version) }),
  };
}

function onMariaDb(path: RequestPath): Combination {
  const processes = peers('mysql', path);
  const server = processes[round(1, path)];
  return {
    targets: [{ name: nameOf(server, 'MariaDB', path), server, isShared: true }],
    processes,
    startStore: async () => {
      const { url } = await sharedServer('mariadb');
      return { MYSQL_URL: await newDatabase(url) };
    },
  };
}

function onSqliteFile(path: RequestPath): Combination {
  const processes = peers('sqlite', path);
  const server = processes[round(1, path)];
  return {
    targets: [{ name: nameOf(server, 'sqlite', path), server, isShared: true }],
    processes,
    startStore: (folder) => Promise.resolve({ SQLITE_PATH: join(folder, 'records.db') }),
  };
}

const WAYS: Readonly<Record<RequestPath, string>> = {
  fast: '',
  beside: ', beside other interceptors',
  streams: ", through Nest's streams",
};

function nameOf({ platform }: AppProcess, store: string, path: RequestPath): string {
  return `${platform} with ${store}${WAYS[path]}`;
}

/** The platform of the next store: on another way than the fast path, the other one on each store. */
function round(onFastPath: 0 | 1, path: RequestPath): 0 | 1 {
  return (path === 'fast') === (onFastPath === 0) ? 0 : 1;
}

/** Two processes on one store, on different platforms. */
function peers(store: string, path: RequestPath): [express: AppProcess, fastify: AppProcess] {
  const [express, fastify] = platforms(store, path);
  express.peer = fastify;
  fastify.peer = express;
  return [express, fastify];
}

function platforms(store: string, path: RequestPath): [express: AppProcess, fastify: AppProcess] {
  return [new AppProcess('express', store, path), new AppProcess('fastify', store, path)];
}
