import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll } from '@jest/globals';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { buildApp } from './build-app.js';
import { AppProcess, ForeignServer, type Server } from './server.js';

export interface Target {
  readonly name: string;
  readonly server: Server;
  /** Whether the suite may expect a second process on the same store. */
  readonly isShared: boolean;
}

const START_TIMEOUT_MS = 60_000;

/** The server that CONTRACT_URL names, or else the suite's application in its four combinations. */
export function useTargets(): Target[] {
  const { CONTRACT_URL: url, CONTRACT_PEER_URL: peerUrl } = process.env;
  if (url === undefined) return startCombinations();
  return [{ name: url, server: new ForeignServer(url, peerUrl), isShared: peerUrl !== undefined }];
}

function startCombinations(): Target[] {
  const start = (PLATFORM: string, STORE: string) => new AppProcess({ PLATFORM, STORE });
  const alone = [start('express', 'memory'), start('fastify', 'memory')] as const;
  const [onExpress, onFastify] = [start('express', 'redis'), start('fastify', 'redis')];
  // Two processes on one Redis, and not even on the same platform.
  onExpress.peer = onFastify;
  onFastify.peer = onExpress;
  const processes = [...alone, onExpress, onFastify];

  let folder: string | undefined;
  let redis: RedisServer | undefined;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'idempotency-contract-'));
    const building = buildApp(folder);
    redis = await startRedis();
    const [program, REDIS_URL] = [await building, redis.url];
    await Promise.all(processes.map((app) => app.start(program, { REDIS_URL })));
  }, START_TIMEOUT_MS);
  afterAll(async () => {
    await Promise.all(processes.map((app) => app.stop()));
    await redis?.stop();
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  });

  return [
    { name: 'express with memory', server: alone[0], isShared: false },
    { name: 'express with redis', server: onExpress, isShared: true },
    { name: 'fastify with memory', server: alone[1], isShared: false },
    { name: 'fastify with redis', server: onFastify, isShared: true },
  ];
}
