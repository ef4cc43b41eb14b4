import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll } from '@jest/globals';
import type { NestPackages } from '../../support/nest-versions.js';
import { postgresServers, type PostgresUnderTest } from '../../support/postgres-servers.js';
import { sharedServer } from '../../support/shared-servers/use-shared-server.js';
import { START_HOOK_MS } from '../../support/start-patience.js';
import { sharedDatabase } from '../../support/use-postgres.js';
import { buildApp } from './build-app.js';
import { AppProcess, ForeignServer, type Server } from './server.js';

export interface Target {
  readonly name: string;
  readonly server: Server;
  /** Whether the suite may expect a second process on the same store. */
  readonly isShared: boolean;
}

/** Processes on one store, those aside that only are the peers of others. */
interface Combination {
  readonly targets: readonly Target[];
  readonly processes: readonly AppProcess[];
  /** Starts the server of the store. @returns what tells the processes where it is. */
  readonly startStore: () => Promise<NodeJS.ProcessEnv>;
}

/** The server that CONTRACT_URL names, or else the suite's application in all its combinations. */
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
  const [express, fastify] = platforms('memory');
  return {
    targets: [
      { name: 'express with memory', server: express, isShared: false },
      { name: 'fastify with memory', server: fastify, isShared: false },
    ],
    processes: [express, fastify],
    startStore: () => Promise.resolve({}),
  };
}

function onRedis(): Combination {
  const [express, fastify] = peers('redis');
  return {
    targets: [
      { name: 'express with redis', server: express, isShared: true },
      { name: 'fastify with redis', server: fastify, isShared: true },
    ],
    processes: [express, fastify],
    startStore: async () => {
      const { url } = await sharedServer('redis');
      return { REDIS_URL: url };
    },
  };
}

/** The platforms take turns: what differs between them has been seen on the other stores. */
function onPostgres(version: PostgresUnderTest, index: number): Combination {
  const [express, fastify] = peers('postgres');
  const [platform, server] = index % 2 === 0 ? ['express', express] : ['fastify', fastify];
  return {
    targets: [{ name: `${platform} with ${version.name}`, server, isShared: true }],
    processes: [express, fastify],
    startStore: async () => ({ DATABASE_URL: await sharedDatabase(version) }),
  };
}

/** Two processes on one store, and not even on the same platform. */
function peers(STORE: string): [express: AppProcess, fastify: AppProcess] {
  const [express, fastify] = platforms(STORE);
  express.peer = fastify;
  fastify.peer = express;
  return [express, fastify];
}

function platforms(STORE: string): [express: AppProcess, fastify: AppProcess] {
  return [
    new AppProcess({ PLATFORM: 'express', STORE }),
    new AppProcess({ PLATFORM: 'fastify', STORE }),
  ];
}
