import type { Platform, StoreKind } from '../../support/http/combinations.js';
import type { Allocations } from './allocations.js';

export type Kind = 'first request' | 'replay';

/**
 * What one request may create in addition to a request on the same route behind an empty interceptor.
 * These are upper bounds. `npm run test:all -- pairs test/e2e/allocations` prints the current numbers; when they fall, lower
 * these too.
 */
export const AT_MOST: Readonly<
  Record<Platform, Readonly<Record<StoreKind, Readonly<Record<Kind, Allocations>>>>>
> = {
  express: {
    memory: {
      'first request': { promises: 7, timers: 0 },
      replay: { promises: -6, timers: 0 },
    },
    redis: {
      'first request': { promises: 7, timers: 0 },
      replay: { promises: -6, timers: 0 },
    },
  },
  fastify: {
    memory: {
      'first request': { promises: 8, timers: 0 },
      replay: { promises: -6, timers: 0 },
    },
    redis: {
      'first request': { promises: 8, timers: 0 },
      replay: { promises: -6, timers: 0 },
    },
  },
};
