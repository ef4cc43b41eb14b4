import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll } from '@jest/globals';
import type { NestPackages } from '../../support/packages/nest-versions.js';
import {
  postgresServers,
  type PostgresUnderTest,
} from '../../support/postgres/postgres-servers.js';
import { sharedServer } from '../../support/servers/shared/shared-server.js';
import { START_HOOK_MS } from '../../support/servers/start-timeouts.js';
import { isTestAll } from '../../support/jest/test-all.js';
import { sharedDatabase } from '../../support/postgres/use-postgres.js';
import { buildApp } from './build-app.js';
import { AppProcess, ForeignServer, type Server } from './server.js';

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
  /** Starts the server of the store. @returns its address for the processes. */
  readonly startStore: () => Promise<NodeJS.ProcessEnv>;
}

/** The server that CONTRACT_URL names, or else the suite's application, each store under one platform. */
export function useTargets(): Target[] {
  const { CONTRACT_URL: url, CONTRACT_PEER_URL: peerUrl } = process.env;
  if (url === undefined) {
    return startCombinations([inMemory(), onRedis(), ...postgresServers.map(onPostgres)]);
  }
  return [{ name: url, server: new ForeignServer(url, peerUrl), isShared: peerUrl !== undefined }];
}

/** The suite's application on another version of Nest, where the stores make no difference. */
export function startOnNest(packages: NestPackages): Target[] {
  return startCombinations([inMemory(), onRedis()], packages);
}

function startCombinations(
  combinations: readonly Combination[],
  packages?: NestPackages,
): Target[] {
  let folder: string | undefined;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'idempotency-contract-'));
    const building = buildApp(folder, packages);
    const starting = combinations.map(async ({ processes, startStore }) => {
      const environment = await startStore();
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

function inMemory(): Combination {
  const server = platforms('memory')[round(0)];
  return {
    targets: [{ name: `${server.platform} with memory`, server, isShared: false }],
    processes: [server],
    startStore: () => Promise.resolve({}),
  };
}

function onRedis(): Combination {
  const processes = peers('redis');
  const server = processes[round(1)];
  return {
    targets: [{ name: `${server.platform} with redis`, server, isShared: true }],
    processes,
    startStore: async () => {
      const { url } = await sharedServer('redis');
      return { REDIS_URL: url };
    },
  };
}

function onPostgres(version: PostgresUnderTest): Combination {
  const processes = peers('postgres');
  const server = processes[round(0)];
  return {
    targets: [{ name: `${server.platform} with ${version.name}`, server, isShared: true }],
    processes,
    startStore: async () => ({ DATABASE_URL: await sharedDatabase(version) }),
  };
}

/** The platform of the next store: `npm run test:all` has the other one on each store. */
function round(onPush: 0 | 1): 0 | 1 {
  return isTestAll === (onPush === 0) ? 1 : 0;
}

/** Two processes on one store, on different platforms. */
function peers(store: string): [express: AppProcess, fastify: AppProcess] {
  const [express, fastify] = platforms(store);
  express.peer = fastify;
  fastify.peer = express;
  return [express, fastify];
}

function platforms(store: string): [express: AppProcess, fastify: AppProcess] {
  return [new AppProcess('express', store), new AppProcess('fastify', store)];
}
