import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from '../../../test/support/project-root.js';
import type { ContenderId } from '../http/contenders.js';
import { versionOf } from '../http/load-package.js';
import { wrkVersion } from '../http/wrk.js';

const PEERS: Partial<Record<ContenderId, readonly string[]>> = {
  'node-idempotency': ['@node-idempotency/nestjs', '@node-idempotency/storage-adapter-redis'],
  powertools: ['@aws-lambda-powertools/idempotency', '@redis/client'],
  'express-idempotency': ['express-idempotency', 'express-idempotency-redis-adapter'],
};

/** The packages of the application, for every contender. */
export function frameworkVersions(): Record<string, string> {
  const wrk = wrkVersion();
  return {
    Nest: installed('@nestjs/core'),
    ioredis: installed('ioredis'),
    pg: installed('pg'),
    autocannon: versionOf('autocannon'),
    ...(wrk === undefined ? {} : { wrk }),
  };
}

export function peerVersions(contenders: readonly ContenderId[]): Record<string, string> {
  const names = contenders.flatMap((contender) => PEERS[contender] ?? []);
  return Object.fromEntries(names.map((name) => [name, versionOf(name)]));
}

/** Of a package that the library's own development dependencies have. */
export function installed(name: string): string {
  const file = join(projectRoot, 'node_modules', name, 'package.json');
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}
