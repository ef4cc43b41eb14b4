import type { OpenContender, Platform } from './contender.js';
import { bare } from './contenders/bare.js';
import { emptyInterceptor } from './contenders/empty-interceptor.js';
import { expressIdempotency } from './contenders/express-idempotency.js';
import {
  inMemory,
  onPostgres,
  onRedis,
  onUnpipelinedRedis,
} from './contenders/nestjs-idempotency.js';
import { nodeIdempotency } from './contenders/node-idempotency.js';
import { powertools } from './contenders/powertools.js';
import { twoBatchedCommands, twoCommands } from './contenders/two-commands.js';
import { watchMulti } from './contenders/watch-multi.js';

/** What a contender promises, and so what it can be measured at. */
export interface Entry {
  readonly name: string;
  readonly open: OpenContender;
  readonly platforms: readonly Platform[];
  /** Replays to a retry without running the handler again. */
  readonly replays: boolean;
  /** The status that a duplicate of a running request gets. */
  readonly conflict?: number;
  /** The status that another content under the same key gets. */
  readonly mismatch?: number;
}

const both: readonly Platform[] = ['express', 'fastify'];
const ours = { platforms: both, replays: true, conflict: 409, mismatch: 422 };

/** By the names that the command line and the child processes use. */
export const contenders = {
  bare: { name: 'bare route', open: bare, platforms: both, replays: false },
  empty: { name: 'empty interceptor', open: emptyInterceptor, platforms: both, replays: false },
  'two-commands': {
    name: 'SET NX GET + SET XX',
    open: twoCommands,
    platforms: both,
    replays: true,
    conflict: 409,
  },
  'two-commands-batched': {
    name: 'SET NX GET + SET XX, batched',
    open: twoBatchedCommands,
    platforms: both,
    replays: true,
    conflict: 409,
  },
  redis: { name: 'nestjs-idempotency, Redis', open: onRedis, ...ours },
  'redis-unpipelined': {
    name: 'nestjs-idempotency, Redis, auto-pipelining off',
    open: onUnpipelinedRedis,
    ...ours,
  },
  memory: { name: 'nestjs-idempotency, memory', open: inMemory, ...ours },
  postgres: { name: 'nestjs-idempotency, PostgreSQL', open: onPostgres, ...ours },
  'node-idempotency': {
    name: '@node-idempotency/nestjs',
    open: nodeIdempotency,
    platforms: both,
    replays: true,
    conflict: 409,
    mismatch: 422,
  },
  powertools: {
    name: '@aws-lambda-powertools/idempotency',
    open: powertools,
    platforms: both,
    replays: true,
    conflict: 409,
  },
  'express-idempotency': {
    name: 'express-idempotency',
    open: expressIdempotency,
    platforms: ['express'],
    replays: true,
    conflict: 409,
    mismatch: 417,
  },
  'watch-multi': {
    name: 'WATCH + MULTI',
    open: watchMulti,
    platforms: both,
    replays: true,
    conflict: 409,
  },
} as const satisfies Record<string, Entry>;

export type ContenderId = keyof typeof contenders;

export function entryOf(id: ContenderId): Entry {
  return contenders[id];
}
